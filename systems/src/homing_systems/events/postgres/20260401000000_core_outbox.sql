-- The outbox, unless there is one.
create schema if not exists core;

create table if not exists core.outbox (
    event_id uuid primary key default gen_random_uuid(),
    event_type text not null,
    payload jsonb not null,
    idempotency_key text not null,
    source text not null default 'sql',
    target text,
    status text not null default 'pending'
    check (status in ('pending', 'in_flight', 'delivered', 'failed')),
    generation bigint not null default 0,
    created_at timestamptz not null default now(),
    deleted_at timestamptz,
    unique (source, idempotency_key)
)
-- A row changes twice or more: with room on its page no index changes.
with (fillfactor = 60);

-- old workers: must stop
-- Names carry a prefix because the tables may live in an application's own database. Texts are
-- compared by their bytes: the order of ids must not depend on the server's locale.

-- What is open. These rows are written again and again, so they are narrow, and what has ended
-- leaves the table: its size is that of the backlog. The record, which says everything about a
-- delivery, stands in `homing_records`. Where both say something, the column is right (see
-- stores/sql/columns.py). `due_at_ms` is the end of the lease while a delivery is in flight.
create table homing_open (
    created_at_ms bigint not null,
    version bigint not null,
    unsettled_claims bigint not null,
    updated_at_ms bigint not null,
    attempts_ended bigint not null,
    attempts_spent bigint not null,
    open_children bigint not null,
    payload_bytes bigint not null,
    due_at_ms bigint,
    claimed_at_ms bigint,
    ended_at_ms bigint,
    committed_at_ms bigint,
    accepted_at_ms bigint, -- of a receipt that says no more than this
    done_since_ms bigint, -- with bit 4 of `carries`: since when that attempt ran
    priority smallint not null check (priority between 1 and 4),
    has_notices_due smallint not null,
    required smallint not null,
    committing smallint not null,
    carries smallint not null, -- bits: 1 a payload, 2 results of stages, 4 the attempt that delivered
    is_stale smallint not null, -- 1: a save has changed columns and left the record as it was
    id text collate "C" not null,
    route text collate "C" not null,
    queue text collate "C" not null,
    stage text collate "C" not null,
    phase text collate "C" not null,
    source text collate "C" not null,
    state text collate "C" not null,
    parent_id text collate "C",
    clone_of text collate "C",
    key text collate "C",
    topic text collate "C",
    failed_because text collate "C",
    holder text collate "C",
    error_class text collate "C",
    done_by text collate "C", -- with bit 4 of `carries`: who made that attempt
    primary key (id)
);
-- Dead rows of a queue are many, and old after a second. Room in a page lets a new version of a row
-- stay beside the old one.
alter table homing_open set (
    fillfactor = 60,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

-- A claim reads its front alone; the id is the last word between equals.
create index homing_open_ready
on homing_open (queue, priority, due_at_ms, id)
where state in ('pending', 'waiting') and due_at_ms is not null;

create index homing_open_leases
on homing_open (queue, due_at_ms) where state = 'in_flight';

create index homing_open_parent
on homing_open (parent_id, created_at_ms, id) where parent_id is not null;

create index homing_open_clone
on homing_open (clone_of, created_at_ms, id) where clone_of is not null;

create index homing_open_notices_due
on homing_open (created_at_ms, id) where has_notices_due = 1;

-- What has ended: written once, as a rule, and read by people and by retention.
create table homing_ended (like homing_open including constraints, primary key (id));

create index homing_ended_created
on homing_ended (created_at_ms, id);

create index homing_ended_failed
on homing_ended (created_at_ms, id) where state = 'failed';

create index homing_ended_notices_due
on homing_ended (created_at_ms, id) where has_notices_due = 1;

-- What has come to owe a notice lately.
create index homing_ended_notices_due_since
on homing_ended (updated_at_ms) where has_notices_due = 1;

create index homing_ended_parent
on homing_ended (parent_id, created_at_ms, id) where parent_id is not null;

create index homing_ended_clone
on homing_ended (clone_of, created_at_ms, id) where clone_of is not null;

-- Retention: `carries` keeps emptied ones out of the way of the next look.
create index homing_ended_ended
on homing_ended (route, state, carries, ended_at_ms) where ended_at_ms is not null;

create view homing_deliveries as
select * from homing_open
union all
select * from homing_ended;

-- One row per delivery, open or ended: its primary key is what makes an id unique. It is rewritten
-- only if the record itself changes, which a claim, a mark and a plain success do not do.
create table homing_records (
    id text collate "C" primary key,
    record text not null,
    payload bytea
);

create table homing_results (
    id text collate "C" not null,
    name text collate "C" not null,
    data bytea not null,
    primary key (id, name)
);

create table homing_recipients (
    address text collate "C" not null,
    id text collate "C" not null,
    primary key (address, id)
);

-- A key is found by a hash: half the index of the texts themselves. `convert_to` would say better
-- what is meant, but it is not immutable, and a function that calls it is not inlined: ten times the
-- work.
create function homing_key_hash(source text, key text) returns uuid
language sql immutable strict parallel safe
return encode(
    substr(
        sha256(
            replace(source, '\', '\\')::bytea || '\x00'::bytea || replace(key, '\', '\\')::bytea
        ),
        1, 16
    ),
    'hex'
)::uuid;

create table homing_keys (
    hash uuid primary key,
    source text collate "C" not null,
    key text collate "C" not null,
    delivery_id text collate "C" not null,
    fingerprint text not null,
    expires_at_ms bigint
);

create index homing_keys_expiry
on homing_keys (expires_at_ms) where expires_at_ms is not null;

-- Ended attempts, but for the one that a delivered row implies (bit 4 of `carries`). The route
-- stands here too, because an attempt may outlive its delivery.
create table homing_attempts (
    delivery_id text collate "C" not null,
    number bigint not null,
    route text collate "C" not null,
    ended_at_ms bigint,
    record text not null,
    primary key (delivery_id, number)
);

create index homing_attempts_ended
on homing_attempts (route, ended_at_ms) where ended_at_ms is not null;

create table homing_facts (
    kind text collate "C" not null,
    key text collate "C" not null,
    at_ms bigint not null,
    value text not null,
    primary key (kind, key)
);

create index homing_facts_at
on homing_facts (at_ms);

-- In time order, kind by kind.
create index homing_facts_of_kind_at
on homing_facts (kind, at_ms, key);

-- One row: processes of one host that share this database meet in a folder of this name.
create table homing_database (
    id text not null
);

insert into homing_database (id) values (gen_random_uuid()::text);

-- Processes that hold an advisory lock in a session of their own: when the server has seen that
-- session end, others see the lock free (see presence.py).
create table homing_sessions (
    holder text collate "C" primary key
);

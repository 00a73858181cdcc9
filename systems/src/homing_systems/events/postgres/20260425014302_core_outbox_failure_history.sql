-- `core.outbox` gains failure_history, attempts, last_error and first_failed_at. The table belongs to
-- the application: constraints, keys and columns of its own stay. Homing writes the row of an event in
-- the same transaction as its own record (record.py). A trigger marks rows that others insert, change
-- or delete; a worker adopts these. Applying this file again changes nothing.
--
-- Functions that act with the rights of their owner name everything by its schema: a table of the
-- caller must not take the place of one of Homing's, which are in the schema that is current now.
alter table core.outbox
add column if not exists failure_history jsonb not null default '[]',
add column if not exists attempts integer not null default 0,
add column if not exists last_error text,
add column if not exists first_failed_at timestamptz;

-- How much the history of each event takes.
create or replace view core.outbox_failure_history_size as
select
    o.event_id,
    o.status,
    jsonb_array_length(o.failure_history) as entries,
    octet_length(o.failure_history::text) as bytes
from core.outbox as o
where o.failure_history <> '[]';

create or replace function core.homing_iso(at timestamptz) returns text
language sql stable
return to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');

-- The id of the event; that of the first one where (source, key) is taken.
create or replace function core.outbox_enqueue(
    p_event_type text, p_payload jsonb, p_idempotency_key text, p_source text default 'sql',
    p_target text default null, p_generation bigint default 0
) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_id uuid;
    v_same boolean;
begin
    insert into core.outbox (
        event_id, event_type, payload, idempotency_key, source, target, generation, status
    )
    values (
        gen_random_uuid(), p_event_type, p_payload, p_idempotency_key, p_source, p_target,
        p_generation, 'pending'
    )
    on conflict do nothing
    returning event_id into v_id;
    if v_id is null then
        select o.event_id, o.event_type = p_event_type and o.payload = p_payload
        into v_id, v_same
        from core.outbox as o
        where o.source = p_source and o.idempotency_key = p_idempotency_key;
        if v_same is not true then
            raise unique_violation using message = format(
                'idempotency_key %L of source %L belongs to another event', p_idempotency_key,
                p_source
            ), hint = format('that event is %s', v_id);
        end if;
    end if;
    return v_id;
end
$$;

-- In one step: the finished cycle is kept, the row is pending, and the code of the stated generation
-- handles it. The worker that adopts the row replays the event by the same rules.
do $do$
begin
    execute format($sql$
create or replace function core.outbox_replay(
    event_id uuid, p_new_generation bigint, p_replayed_by text
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_row core.outbox;
begin
    if p_new_generation is null or p_new_generation < 0 then
        raise invalid_parameter_value using message = 'p_new_generation: state the generation';
    end if;
    if coalesce(trim(p_replayed_by), '') = '' then
        raise invalid_parameter_value using message = 'p_replayed_by: state who replays';
    end if;
    -- A second replay at the same moment waits here, and then finds no failed row.
    select * into v_row from core.outbox as o where o.event_id = outbox_replay.event_id for update;
    if not found then
        raise no_data_found using message = format('there is no event %%s', event_id);
    end if;
    if v_row.status <> 'failed' or v_row.deleted_at is not null then
        raise object_not_in_prerequisite_state using message = format(
            'event %%s is %%s: only a failed one can be replayed', v_row.event_id,
            case when v_row.status = 'failed' then 'deleted' else v_row.status end
        );
    end if;
    update core.outbox as o
    set
        failure_history = o.failure_history || jsonb_build_object(
            'cycle', jsonb_array_length(o.failure_history) + 1,
            'attempts', o.attempts,
            'last_error', o.last_error,
            'first_failed_at', core.homing_iso(o.first_failed_at),
            'failed_at', core.homing_iso((
                select to_timestamp(d.ended_at_ms / 1000.0) from %1$I.homing_ended as d
                where d.id = o.event_id::text
            )),
            'generation', o.generation,
            'replayed_at', core.homing_iso(clock_timestamp()),
            'replayed_by', p_replayed_by
        ),
        attempts = 0,
        last_error = null,
        first_failed_at = null,
        generation = p_new_generation,
        status = 'pending'
    where o.event_id = v_row.event_id;
end
$$
    $sql$, current_schema());

    -- The value differs with each transaction: a row that changes while it is adopted stays marked.
    execute format($sql$
create or replace function core.outbox_mark() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into %1$I.homing_facts (kind, key, at_ms, value)
    values (
        'foreign_row', 'core.outbox/' || coalesce(new.event_id, old.event_id),
        extract(epoch from clock_timestamp()) * 1000,
        jsonb_build_object('by', session_user, 'change', pg_current_xact_id()::text)
    )
    on conflict (kind, key) do update set at_ms = excluded.at_ms, value = excluded.value;
    perform pg_notify('homing', '');
    return null;
end
$$
    $sql$, current_schema());
end
$do$;

create or replace trigger outbox_mark
after insert or update or delete on core.outbox
for each row when (coalesce(current_setting('homing.writes', true), '') <> 'on')
execute function core.outbox_mark();

-- What was there before is adopted, too.
insert into homing_facts (kind, key, at_ms, value)
select
    'foreign_row', 'core.outbox/' || o.event_id, extract(epoch from clock_timestamp()) * 1000,
    jsonb_build_object('by', session_user, 'change', pg_current_xact_id()::text)
from core.outbox as o
where not exists (select from homing_records as r where r.id = o.event_id::text)
on conflict do nothing;

-- Ids that are not UUIDs belong to events that the library was given an id for; they are not shown.
create or replace function core.homing_uuid(id text) returns uuid
language sql immutable strict parallel safe
return case
    when id ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' then id::uuid
end;

-- A text as one part of a queue (engine/queues.py).
create or replace function core.homing_queue_part(part text) returns text
language sql immutable strict parallel safe
return replace(replace(replace(part, '%', '%25'), '/', '%2F'), '@', '%40');

do $$
begin
    if (select relkind from pg_class where oid = to_regclass('core.event_handled')) = 'r' then
        alter table core.event_handled rename to event_handled_before_homing;
    end if;
end
$$;

-- Who handled what: facts, and what follows from delivered rows. The name of a handler that is
-- alone for its type stands in a fact that its process wrote when it started.
create or replace view core.event_handled as
select
    core.homing_uuid(split_part(f.key, '/', 1)) as event_id,
    substr(f.key, strpos(f.key, '/') + 1) as handler_name,
    f.value::jsonb ->> 'key' as idempotency_key,
    to_timestamp(f.at_ms / 1000.0) as handled_at
from homing_facts as f
where f.kind = 'event_handled'
union all
select core.homing_uuid(h.id), h.handler_name, h.key, to_timestamp(h.ended_at_ms / 1000.0)
from (
    select r.id, alone.name as handler_name, d.key, d.ended_at_ms
    from homing_ended as d
    join homing_records as r on r.id = d.id
    cross join lateral (
        select f.value::jsonb ->> 'name' as name
        from homing_facts as f
        where
            f.kind = 'handler'
            and f.key >= core.homing_queue_part(d.topic) || '/'
            and f.key < core.homing_queue_part(d.topic) || '0'
            and f.at_ms <= d.ended_at_ms
        order by f.at_ms desc
        limit 1
    ) as alone
    where
        d.route = 'events' and d.state = 'delivered' and d.parent_id is null
        and not coalesce((r.record::jsonb ->> 'fanned_out')::boolean, false)
    union all
    select d.parent_id, r.record::jsonb #>> '{metadata,handler}', d.key, d.ended_at_ms
    from homing_ended as d
    join homing_records as r on r.id = d.id
    where d.route = 'events' and d.state = 'delivered' and d.parent_id is not null
) as h
where
    not exists (
        select from homing_facts as f
        where f.kind = 'event_handled' and f.key = h.id || '/' || h.handler_name
    );

create index if not exists homing_ended_event
on homing_ended (core.homing_uuid(parent_id)) where parent_id is not null;

create index if not exists homing_facts_event_handled
on homing_facts (core.homing_uuid(split_part(key, '/', 1))) where kind = 'event_handled';

do $do$
begin
    execute format($sql$
create or replace function core.event_handled_write() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_now bigint := extract(epoch from clock_timestamp()) * 1000;
begin
    if tg_op = 'DELETE' then
        delete from %1$I.homing_facts as f
        where f.kind = 'event_handled' and f.key = old.event_id || '/' || old.handler_name;
        if not found then
            raise feature_not_supported using
                message = format('event %%s is delivered: that it is handled stays', old.event_id);
        end if;
        return old;
    end if;
    if new.event_id is null or new.handler_name is null then
        raise not_null_violation using message = 'event_id and handler_name are needed';
    end if;
    if exists (
        select from core.event_handled as h
        where h.event_id = new.event_id and h.handler_name = new.handler_name
    ) then
        raise unique_violation using message = format(
            'handler %%L has handled event %%s already', new.handler_name, new.event_id
        );
    end if;
    insert into %1$I.homing_facts (kind, key, at_ms, value)
    values (
        'event_handled',
        new.event_id || '/' || new.handler_name,
        coalesce((extract(epoch from new.handled_at) * 1000)::bigint, v_now),
        json_build_object(
            'key', new.idempotency_key, 'handler', new.handler_name, 'event_id', new.event_id
        )
    );
    return new;
end
$$
    $sql$, current_schema());
end
$do$;

create or replace trigger event_handled_write
instead of insert or delete on core.event_handled
for each row execute function core.event_handled_write();

-- PostgreSQL lets everyone call a new function. These act with the rights of their owner, so that
-- each has to be granted: outbox_enqueue to producers, outbox_replay to operators.
revoke execute on function core.outbox_enqueue, core.outbox_replay from public;

-- The rows of the table that was there.
do $$
begin
    if to_regclass('core.event_handled_before_homing') is not null then
        insert into homing_facts (kind, key, at_ms, value)
        select
            'event_handled', b.event_id || '/' || b.handler_name,
            (extract(epoch from b.handled_at) * 1000)::bigint,
            json_build_object(
                'key', b.idempotency_key, 'handler', b.handler_name, 'event_id', b.event_id
            )
        from core.event_handled_before_homing as b
        on conflict do nothing;
        drop table core.event_handled_before_homing;
    end if;
end
$$;

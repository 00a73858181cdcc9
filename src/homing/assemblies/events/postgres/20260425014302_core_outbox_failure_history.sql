-- `core.outbox` becomes a view over the tables of Homing: it gains failure_history, attempts,
-- last_error and first_failed_at, and the rows of the table that was there are taken over. A test
-- compares every row of the view with the RecordLayout (record.py), and what the functions write with what
-- Python writes. Applying this file again changes nothing.
--
-- The functions run with the rights of their owner, so that a producer needs none on the tables of
-- Homing. Where a column of homing_deliveries and the record differ, the column is right: `is_stale`
-- says that it may be so.

-- The tables of Homing are found in the schema that they are in now. A temporary table of the caller,
-- which PostgreSQL would look up first, must not take the place of one of them.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

create or replace function core.homing_now_ms() returns bigint
language sql volatile
return floor(extract(epoch from clock_timestamp()) * 1000)::bigint;

create or replace function core.homing_ms(at timestamptz) returns bigint
language sql immutable strict
return round(extract(epoch from at) * 1000)::bigint;

create or replace function core.homing_iso(at_ms bigint) returns text
language sql immutable strict
return to_char(
    timestamp 'epoch' + at_ms * interval '1 millisecond', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'
);

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

create or replace function core.homing_queue(event_type text, generation bigint) returns text
language sql immutable strict parallel safe
return 'events/' || core.homing_queue_part(event_type)
|| case when generation > 0 then '@' || generation else '' end;

-- A number as the encoder of Python writes it. Whole numbers of up to 64 bits are integers, all
-- others have the precision of a double.
create or replace function core.homing_number(given numeric) returns text
language plpgsql immutable strict parallel safe as $$
declare
    shortest text;
    exact numeric := given;
begin
    if exact <> trunc(exact) or exact not between -9223372036854775808 and 18446744073709551615 then
        shortest := given::float8::text;
        exact := shortest::numeric;
    end if;
    if exact = trunc(exact) and exact between -9223372036854775808 and 18446744073709551615 then
        return trunc(exact)::text;
    end if;
    -- PostgreSQL writes an exponent from 1e15 and below 1e-4 on, Python from 1e16 and below 1e-5 on.
    if shortest !~ 'e' or shortest ~ 'e(\+15|-0[1-5])$' then
        return exact::text;
    end if;
    return regexp_replace(shortest, 'e\+?(-?)0*', 'e\1');
end
$$;

-- JSON as Python writes it: sorted names, no spaces; with `composed`, in the one spelling that
-- fingerprints are made of.
create or replace function core.homing_json(given jsonb, composed boolean) returns text
language plpgsql immutable strict parallel safe as $$
begin
    case jsonb_typeof(given)
        when 'object' then
            return '{' || coalesce((
                select string_agg(
                    to_json(m.name)::text || ':' || core.homing_json(m.value, composed),
                    ',' order by m.name collate "C"
                )
                from (
                    select
                        case when composed then normalize(each.key, nfc) else each.key end as name,
                        each.value
                    from jsonb_each(given) as each
                ) as m
            ), '') || '}';
        when 'array' then
            return '[' || coalesce((
                select string_agg(core.homing_json(e.value, composed), ',' order by e.place)
                from jsonb_array_elements(given) with ordinality as e (value, place)
            ), '') || ']';
        when 'string' then
            return case
                when composed then to_json(normalize(given #>> '{}', nfc))
                else to_json(given #>> '{}')
            end::text;
        when 'number' then
            return core.homing_number((given #>> '{}')::numeric);
        else
            return given::text;
    end case;
end
$$;

create or replace function core.homing_event(event_type text, payload jsonb, composed boolean)
returns text
language sql immutable parallel safe
return '{"kind":"event","type":'
|| case when composed then to_json(normalize(event_type, nfc)) else to_json(event_type) end::text
|| case
    when payload is null or payload = 'null' then ''
    else ',"data":' || core.homing_json(payload, composed)
end || '}';

-- The fingerprint of a request (domain/identity.py); the frame is that of the route.
create or replace function core.homing_fingerprint(event_type text, payload jsonb) returns text
language sql immutable parallel safe
return substr(encode(sha256(
    '\x6a0000000000000008226576656e747322'::bytea
    || convert_to(core.homing_event(event_type, payload, true), 'UTF8')
), 'hex'), 1, 32);

-- An event in the state that the row says; the id of the first one where (source, key) is taken.
create or replace function core.homing_put(
    p_event_id uuid, p_event_type text, p_payload jsonb, p_idempotency_key text, p_source text,
    p_target text, p_status text, p_generation bigint, p_attempts integer, p_last_error text,
    p_first_failed_at timestamptz, p_created_at timestamptz, p_deleted_at timestamptz
) returns uuid
language plpgsql security definer set search_path from current as $$
declare
    v_now bigint := core.homing_now_ms();
    v_created bigint := coalesce(core.homing_ms(p_created_at), v_now);
    v_id uuid := coalesce(p_event_id, overlay(
        replace(gen_random_uuid()::text, '-', '')
        placing lpad(to_hex(v_now), 12, '0') || '7' from 1 for 13
    )::uuid);
    v_taken homing_keys;
    v_queue text;
    v_payload bytea;
    v_fingerprint text;
    v_state text;
    v_because text;
    v_record jsonb;
    v_ended bigint;
    v_failure jsonb;
begin
    if p_event_type is null or p_idempotency_key is null or p_source is null then
        raise not_null_violation using
            message = 'event_type, idempotency_key and source are needed';
    end if;
    if p_event_type = '' or p_event_type ~ '[[:cntrl:]]' then
        raise check_violation using
            message = 'event_type: must be a text without control characters';
    end if;
    if p_generation is null or p_generation < 0 then
        raise check_violation using message = 'generation: must be 0 or more';
    end if;
    if p_status is null or p_status not in ('pending', 'in_flight', 'delivered', 'failed') then
        raise check_violation using message = format(
            'status: %L is not one of pending, in_flight, delivered, failed', p_status
        );
    end if;
    v_queue := core.homing_queue(p_event_type, p_generation);
    v_payload := convert_to(core.homing_event(p_event_type, p_payload, false), 'UTF8');
    v_fingerprint := core.homing_fingerprint(p_event_type, p_payload);

    delete from homing_keys as k
    where
        k.hash = homing_key_hash(p_source, p_idempotency_key)
        and k.expires_at_ms <= v_created;
    insert into homing_keys (hash, source, key, delivery_id, fingerprint)
    values (
        homing_key_hash(p_source, p_idempotency_key), p_source, p_idempotency_key, v_id,
        v_fingerprint
    )
    on conflict (hash) do nothing;
    if not found then
        select * into strict v_taken
        from homing_keys as k where k.hash = homing_key_hash(p_source, p_idempotency_key);
        if v_taken.fingerprint <> v_fingerprint then
            raise unique_violation using message = format(
                'idempotency_key %L of source %L belongs to another event', p_idempotency_key,
                p_source
            ), hint = format('that event is %s', v_taken.delivery_id);
        end if;
        return core.homing_uuid(v_taken.delivery_id);
    end if;

    -- What another program was just trying is pending here.
    v_state := case p_status when 'in_flight' then 'pending' else p_status end;
    if v_state = 'failed' then
        v_because := 'exhausted';
        v_failure := jsonb_build_object(
            'error_class', 'imported', 'disposition', 'retry', 'detail', coalesce(p_last_error, '')
        );
    elsif p_last_error is not null then
        v_failure := jsonb_build_object(
            'error_class', 'imported', 'disposition', 'retry', 'detail', p_last_error
        );
    end if;
    if p_deleted_at is not null and v_state <> 'delivered' then
        v_state := 'dismissed';
        -- Once deleted_at is taken back it is a dead letter, also one that was never tried.
        v_because := coalesce(v_because, 'rejected');
    end if;
    if v_state <> 'pending' then
        v_ended := coalesce(core.homing_ms(p_deleted_at), v_created);
    end if;
    v_record := jsonb_strip_nulls(jsonb_build_object(
        'id', v_id, 'route', 'events', 'queue', v_queue, 'stage', 'handle',
        'created_at_ms', v_created, 'updated_at_ms', coalesce(v_ended, v_created),
        'source', p_source, 'key', p_idempotency_key, 'fingerprint', v_fingerprint,
        'topic', p_event_type, 'generation', p_generation, 'state', v_state,
        'failed_because', v_because,
        'due_at_ms', case when v_state = 'pending' then v_created end,
        'ended_at_ms', v_ended,
        'attempts_ended', coalesce(p_attempts, 0), 'attempts_spent', coalesce(p_attempts, 0),
        'first_failed_at_ms', core.homing_ms(p_first_failed_at),
        'failure', v_failure,
        'receipt', case when v_state = 'delivered' then
            jsonb_build_object('accepted_at_ms', v_ended, 'evidence', 'late')
        end,
        'metadata', jsonb_strip_nulls(jsonb_build_object(
            'target', p_target,
            'deleted_at_ms', case when v_state = 'delivered' then
                core.homing_ms(p_deleted_at)::text
            end
        ))
    ));
    insert into homing_records (id, record, payload) values (v_id, v_record::text, v_payload);
    if v_ended is null then
        insert into homing_open
        select * from core.homing_open_row(v_record, octet_length(v_payload));
        perform pg_notify('homing', '');
    else
        insert into homing_ended
        select * from core.homing_open_row(v_record, octet_length(v_payload));
    end if;
    return v_id;
end
$$;

-- The row of a record as it was just made, with its payload and no result.
create or replace function core.homing_open_row(record jsonb, payload_bytes bigint)
returns homing_open
language sql stable set search_path from current as $$
select jsonb_populate_record(null::homing_open, jsonb_build_object(
    'version', 1, 'unsettled_claims', 0, 'attempts_ended', 0, 'attempts_spent', 0,
    'open_children', 0, 'payload_bytes', payload_bytes, 'priority', 2, 'has_notices_due', 0,
    'required', 1, 'committing', 0, 'carries', 1, 'is_stale', 0, 'phase', 'worker',
    'error_class', record #>> '{failure,error_class}'
) || record)
$$;

-- What Python refuses, too (engine/intake/request_checks.py). Rows that are taken over are kept as they are.
create or replace function core.homing_check(
    p_event_type text, p_idempotency_key text, p_source text, p_target text
) returns void
language plpgsql immutable parallel safe as $$
declare
    v_field record;
begin
    for v_field in
        select * from (values
            ('event_type', p_event_type, 1, 512),
            ('idempotency_key', p_idempotency_key, 1, 512),
            ('source', p_source, 0, 512),
            ('target', p_target, 0, 8000)
        ) as f (name, given, least, most)
        where length(f.given) not between f.least and f.most
    loop
        raise check_violation using message = format(
            '%s: must have %s to %s characters', v_field.name, v_field.least, v_field.most
        );
    end loop;
end
$$;

create or replace function core.outbox_enqueue(
    p_event_type text, p_payload jsonb, p_idempotency_key text, p_source text default 'sql',
    p_target text default null, p_generation bigint default 0
) returns uuid
language sql security definer set search_path from current as $$
select core.homing_check(p_event_type, p_idempotency_key, p_source, p_target);
select core.homing_put(
    null, p_event_type, p_payload, p_idempotency_key, p_source, p_target, 'pending', p_generation,
    0, null, null, null, null
)
$$;

-- One finished cycle as `failure_history` shows it.
create or replace function core.homing_failure_history(record jsonb) returns jsonb
language sql immutable parallel safe
return coalesce((
    select jsonb_agg(jsonb_build_object(
        'cycle', c.value -> 'number',
        'attempts', c.value -> 'attempts',
        'last_error', coalesce(nullif(c.value ->> 'last_error', ''), c.value ->> 'error_class'),
        'first_failed_at', core.homing_iso((c.value ->> 'first_failed_at_ms')::bigint),
        'failed_at', core.homing_iso((c.value ->> 'failed_at_ms')::bigint),
        'generation', coalesce(c.value -> 'generation', '0'),
        'replayed_at', core.homing_iso((c.value ->> 'replayed_at_ms')::bigint),
        'replayed_by', c.value ->> 'replayed_by'
    ) order by c.place)
    from jsonb_array_elements(record -> 'failure_history') with ordinality as c (value, place)
), '[]');

-- The table that was there is set aside and its rows are taken over below.
do $$
begin
    if (select relkind from pg_class where oid = to_regclass('core.outbox')) = 'r' then
        alter table core.outbox rename to outbox_before_homing;
    end if;
    if (select relkind from pg_class where oid = to_regclass('core.event_handled')) = 'r' then
        alter table core.event_handled rename to event_handled_before_homing;
    end if;
end
$$;

-- Finds an event by its id.
create index if not exists homing_records_event
on homing_records (core.homing_uuid(id));

-- One part for each status, so that a condition on it reads that part alone. An event with several
-- handlers has a row for each of them too (parent_id), which is not shown.
create or replace view core.outbox as
select
    core.homing_uuid(e.id) as event_id,
    e.topic as event_type,
    coalesce(convert_from(e.payload, 'UTF8')::jsonb -> 'data', 'null') as payload,
    e.key as idempotency_key,
    e.source,
    e.record #>> '{metadata,target}' as target,
    e.status,
    coalesce((e.record ->> 'generation')::bigint, 0) as generation,
    e.attempts_spent::integer as attempts,
    coalesce(
        nullif(e.record #>> '{failure,detail}', ''), e.record #>> '{failure,error_class}'
    ) as last_error,
    to_timestamp((e.record ->> 'first_failed_at_ms')::bigint / 1000.0) as first_failed_at,
    core.homing_failure_history(e.record) as failure_history,
    to_timestamp(e.created_at_ms / 1000.0) as created_at,
    -- Metadata may also come from a producer, who can write any text there.
    coalesce(
        to_timestamp(e.deleted_at_ms / 1000.0),
        case
            when e.status = 'delivered' and e.record #>> '{metadata,deleted_at_ms}' ~ '^[0-9]{1,14}$'
                then to_timestamp((e.record #>> '{metadata,deleted_at_ms}')::bigint / 1000.0)
        end
    ) as deleted_at
from (
    select r.id, d.topic, r.payload, d.key, d.source, r.record::jsonb as record,
        d.attempts_spent, d.created_at_ms, 'pending' as status, null::bigint as deleted_at_ms
    from homing_open as d join homing_records as r on r.id = d.id
    where d.route = 'events' and d.parent_id is null and d.state = 'pending'
    union all
    select r.id, d.topic, r.payload, d.key, d.source, r.record::jsonb,
        d.attempts_spent, d.created_at_ms, 'in_flight', null
    from homing_open as d join homing_records as r on r.id = d.id
    where d.route = 'events' and d.parent_id is null and d.state in ('in_flight', 'waiting')
    union all
    select r.id, d.topic, r.payload, d.key, d.source, r.record::jsonb,
        d.attempts_spent, d.created_at_ms, 'delivered', null
    from homing_ended as d join homing_records as r on r.id = d.id
    where
        d.route = 'events' and d.parent_id is null and d.state in ('delivered', 'suppressed')
        and d.ended_at_ms is not null
    union all
    select r.id, d.topic, r.payload, d.key, d.source, r.record::jsonb,
        d.attempts_spent, d.created_at_ms, 'failed', null
    from homing_ended as d join homing_records as r on r.id = d.id
    where d.route = 'events' and d.parent_id is null and d.state = 'failed'
    union all
    select r.id, d.topic, r.payload, d.key, d.source, r.record::jsonb,
        d.attempts_spent, d.created_at_ms, 'failed', d.ended_at_ms
    from homing_ended as d join homing_records as r on r.id = d.id
    where
        d.route = 'events' and d.parent_id is null and d.state = 'dismissed'
        and d.ended_at_ms is not null
) as e
where core.homing_uuid(e.id) is not null;

alter view core.outbox alter column status set default 'pending';
alter view core.outbox alter column source set default 'sql';
alter view core.outbox alter column generation set default 0;
alter view core.outbox alter column attempts set default 0;
alter view core.outbox alter column failure_history set default '[]';
alter view core.outbox alter column created_at
set default date_trunc('milliseconds', clock_timestamp());

-- How much the history of each event takes.
create or replace view core.outbox_failure_history_size as
select
    o.event_id,
    o.status,
    jsonb_array_length(o.failure_history) as entries,
    octet_length(o.failure_history::text) as bytes
from core.outbox as o
where o.failure_history <> '[]';

-- What an operator did, as the desk notes it (engine/ops/desk_writer.py).
create or replace function core.homing_audit(
    p_id text, p_verb text, p_actor text, p_reason text, p_now bigint
) returns void
language sql security definer set search_path from current as $$
insert into homing_facts (kind, key, at_ms, value)
values (
    'audit',
    p_id || '/' || lpad(p_now::text, 15, '0') || '-' || substr(md5(random()::text), 1, 8),
    p_now,
    json_build_object('verb', p_verb, 'actor', p_actor, 'reason', p_reason)
)
$$;

-- The transition `replay` (domain/transitions/operator.py) for one failed row.
create or replace function core.homing_replay(
    p_id text, p_new_generation bigint, p_replayed_by text, p_now bigint, p_open_children bigint
) returns void
language plpgsql security definer set search_path from current as $$
declare
    v_row homing_ended;
    v_open homing_open;
    v_record jsonb;
    v_failure jsonb;
    v_generation bigint;
    v_queue text;
    v_stage text;
    v_sent boolean;
    v_cycle integer;
begin
    delete from homing_ended as d where d.id = p_id and d.state = 'failed' returning * into v_row;
    if not found then
        return;
    end if;
    select r.record::jsonb into strict v_record from homing_records as r where r.id = p_id;
    v_failure := v_record -> 'failure';
    v_generation := coalesce((v_record ->> 'generation')::bigint, 0);
    v_cycle := coalesce((v_record ->> 'cycle')::integer, 1);
    v_stage := coalesce(v_record ->> 'restart_at', v_row.stage);
    v_sent := v_record ? 'maybe_sent_at_ms';
    v_queue := case
        when v_generation > 0 then regexp_replace(v_row.queue, '@' || v_generation || '$', '')
        else v_row.queue
    end || case when p_new_generation > 0 then '@' || p_new_generation else '' end;
    v_record := (v_record - array[
        'failed_because', 'max_attempts', 'crashes', 'failure', 'first_failed_at_ms',
        'last_failed_at_ms', 'expires_at_ms', 'restart_at', 'interruption_noted', 'interruptions',
        'tried_alone', 'phase', 'doubt_waived'
    ] - case when v_record ? 'restart_at' then 'fanned_out' else '' end)
    || jsonb_build_object(
        'cycle', v_cycle + 1,
        'generation', p_new_generation,
        'queue', v_queue,
        'stage', v_stage,
        'doubt_waived', v_sent,
        'maybe_duplicate', v_sent
        or coalesce((v_record ->> 'maybe_duplicate')::boolean, false)
        or coalesce((v_record ->> 'earlier_maybe_sent')::boolean, false),
        'failure_history', coalesce(v_record -> 'failure_history', '[]') || jsonb_strip_nulls(
            jsonb_build_object(
                'number', v_cycle,
                'attempts', v_row.attempts_spent,
                'stage', v_row.stage,
                'failed_because', v_row.failed_because,
                'last_error', case when v_failure is not null then
                    coalesce(v_failure ->> 'detail', '')
                end,
                'error_class', v_failure ->> 'error_class',
                'code', v_failure ->> 'code',
                'first_failed_at_ms', v_record -> 'first_failed_at_ms',
                'failed_at_ms', v_row.ended_at_ms,
                'generation', v_generation,
                'replayed_at_ms', p_now,
                'replayed_by', p_replayed_by,
                'reason', 'outbox_replay'
            )
        )
    );
    update homing_records as r set record = v_record::text where r.id = p_id;
    v_open := jsonb_populate_record(null::homing_open, to_jsonb(v_row) || jsonb_build_object(
        'state', 'pending', 'version', v_row.version + 1, 'unsettled_claims', 0,
        'updated_at_ms', p_now, 'attempts_spent', 0, 'holder', null, 'due_at_ms', p_now,
        'claimed_at_ms', null, 'ended_at_ms', null, 'committing', 0, 'failed_because', null,
        'error_class', null, 'queue', v_queue, 'stage', v_stage, 'phase', 'worker', 'is_stale', 1,
        'open_children', p_open_children
    ));
    insert into homing_open select v_open.*;
    update homing_keys as k set expires_at_ms = null
    where
        v_row.parent_id is null and k.hash = homing_key_hash(v_row.source, v_row.key)
        and k.delivery_id = p_id and k.expires_at_ms is not null;
    perform core.homing_audit(p_id, 'replay', p_replayed_by, 'outbox_replay', p_now);
end
$$;

create or replace function core.outbox_replay(
    event_id uuid, p_new_generation bigint, p_replayed_by text
) returns void
language plpgsql security definer set search_path from current as $$
declare
    v_id text := outbox_replay.event_id;
    v_now bigint := core.homing_now_ms();
    v_state text;
    v_generation bigint;
    v_child text;
    v_children bigint := 0;
begin
    if p_new_generation is null or p_new_generation < 0 then
        raise invalid_parameter_value using message = 'p_new_generation: state the generation';
    end if;
    if coalesce(p_replayed_by, '') = '' then
        raise invalid_parameter_value using message = 'p_replayed_by: state who replays';
    end if;
    -- A second replay at the same moment waits here, and then finds no failed row.
    select d.state into v_state
    from homing_ended as d
    where d.id = v_id and d.route = 'events' and d.parent_id is null for update;
    if v_state is null then
        select d.state into v_state
        from homing_open as d
        where d.id = v_id and d.route = 'events' and d.parent_id is null;
    end if;
    if v_state is null then
        raise no_data_found using message = format('there is no event %s', v_id);
    end if;
    if v_state <> 'failed' then
        raise object_not_in_prerequisite_state using message = format(
            'event %s is %s: only a failed one can be replayed', v_id, case v_state
                when 'waiting' then 'in_flight'
                when 'suppressed' then 'delivered'
                when 'dismissed' then 'deleted'
                else v_state
            end
        );
    end if;
    select coalesce((r.record::jsonb ->> 'generation')::bigint, 0) into v_generation
    from homing_records as r where r.id = v_id;
    if p_new_generation < v_generation then
        raise invalid_parameter_value using message = format(
            'event %s is of generation %s: state that one or a later one', v_id, v_generation
        );
    end if;
    for v_child in
        select d.id from homing_ended as d
        where d.parent_id = v_id and d.state = 'failed' for update
    loop
        perform core.homing_replay(v_child, p_new_generation, p_replayed_by, v_now, 0);
        v_children := v_children + 1;
    end loop;
    perform core.homing_replay(v_id, p_new_generation, p_replayed_by, v_now, v_children);
    perform pg_notify('homing', '');
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

create or replace function core.event_handled_write() returns trigger
language plpgsql security definer set search_path from current as $$
declare
    v_now bigint := core.homing_now_ms();
begin
    if tg_op = 'DELETE' then
        delete from homing_facts as f
        where f.kind = 'event_handled' and f.key = old.event_id || '/' || old.handler_name;
        if not found then
            raise feature_not_supported using
                message = format('event %s is delivered: that it is handled stays', old.event_id);
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
            'handler %L has handled event %s already', new.handler_name, new.event_id
        );
    end if;
    insert into homing_facts (kind, key, at_ms, value)
    values (
        'event_handled',
        new.event_id || '/' || new.handler_name,
        coalesce(core.homing_ms(new.handled_at), v_now),
        json_build_object(
            'key', new.idempotency_key, 'handler', new.handler_name, 'event_id', new.event_id
        )
    );
    return new;
end
$$;

create or replace trigger event_handled_write
instead of insert or delete on core.event_handled
for each row execute function core.event_handled_write();

-- An operator takes back a delivery: the handler is not called again (see core.event_handled).
create or replace function core.homing_force_failed(p_id text, p_error text, p_now bigint)
returns void
language plpgsql security definer set search_path from current as $$
declare
    v_row homing_ended;
begin
    select * into strict v_row from homing_ended as d where d.id = p_id for update;
    insert into homing_facts (kind, key, at_ms, value)
    select
        'event_handled', h.event_id || '/' || h.handler_name, core.homing_ms(h.handled_at),
        json_build_object(
            'key', h.idempotency_key, 'handler', h.handler_name, 'event_id', h.event_id
        )
    from core.event_handled as h
    where h.event_id = p_id::uuid and v_row.parent_id is null
    on conflict do nothing;
    -- The attempt that the delivered row implied (stores/sql/ledger.py).
    if v_row.carries & 4 <> 0 then
        insert into homing_attempts (delivery_id, number, route, ended_at_ms, record)
        select
            p_id, v_row.attempts_ended, v_row.route, v_row.ended_at_ms,
            jsonb_strip_nulls(jsonb_build_object(
                'delivery_id', p_id, 'number', v_row.attempts_ended, 'stage', v_row.stage,
                'status', 'done', 'cycle', r.record::jsonb -> 'cycle',
                'started_at_ms', v_row.done_since_ms, 'ended_at_ms', v_row.ended_at_ms,
                'holder', v_row.done_by
            ))
        from homing_records as r where r.id = p_id
        on conflict do nothing;
    end if;
    update homing_ended as d
    set
        state = 'failed', failed_because = 'rejected', error_class = 'taken_back',
        version = d.version + 1, updated_at_ms = p_now, ended_at_ms = p_now,
        carries = d.carries & 3, done_by = null, done_since_ms = null, is_stale = 1
    where d.id = p_id;
    update homing_records as r
    set record = (r.record::jsonb || jsonb_build_object(
        'failed_because', 'rejected',
        'failure', jsonb_build_object(
            'error_class', 'taken_back', 'disposition', 'reject', 'detail', coalesce(p_error, '')
        )
    ))::text
    where r.id = p_id;
end
$$;

create or replace function core.outbox_write() returns trigger
language plpgsql security definer set search_path from current as $$
declare
    v_now bigint := core.homing_now_ms();
    v_actor text := session_user;
begin
    if tg_op = 'INSERT' then
        perform core.homing_check(new.event_type, new.idempotency_key, new.source, new.target);
        new.event_id := core.homing_put(
            new.event_id, new.event_type, new.payload, new.idempotency_key, new.source, new.target,
            new.status, new.generation, new.attempts, new.last_error, new.first_failed_at,
            new.created_at, new.deleted_at
        );
        return new;
    end if;
    if tg_op = 'DELETE' then
        raise feature_not_supported using
            message = 'rows of core.outbox are not deleted: set deleted_at';
    end if;
    if (to_jsonb(new) - array['deleted_at', 'status', 'last_error'])
        <> (to_jsonb(old) - array['deleted_at', 'status', 'last_error'])
    then
        raise feature_not_supported using
            message = 'of a row of core.outbox only deleted_at can be set, and status to failed',
            hint = 'core.outbox_replay makes a failed row pending';
    end if;
    if old.status = 'delivered' and new.status = 'failed' then
        perform core.homing_force_failed(old.event_id::text, new.last_error, v_now);
        perform core.homing_audit(old.event_id::text, 'take_back', v_actor, 'core.outbox', v_now);
    elsif new.status <> old.status or new.last_error is distinct from old.last_error then
        raise feature_not_supported using
            message = format('a row that is %s cannot become %s', old.status, new.status),
            hint = 'core.outbox_replay makes a failed row pending';
    end if;
    if new.deleted_at is distinct from old.deleted_at then
        update homing_ended as d
        set
            state = case when new.deleted_at is null then 'failed' else 'dismissed' end,
            failed_because = coalesce(d.failed_because, 'rejected'),
            ended_at_ms = coalesce(core.homing_ms(new.deleted_at), d.ended_at_ms),
            updated_at_ms = v_now,
            version = d.version + 1,
            is_stale = 1
        where d.id = old.event_id::text and d.state in ('failed', 'dismissed');
        if not found then
            raise object_not_in_prerequisite_state using
                message = format('event %s is %s: only a failed one can be deleted', old.event_id, old.status);
        end if;
        -- One that was cancelled has no reason.
        update homing_records as r
        set record = (r.record::jsonb || '{"failed_because": "rejected"}')::text
        where r.id = old.event_id::text and not r.record::jsonb ? 'failed_because';
        perform core.homing_audit(
            old.event_id::text, case when new.deleted_at is null then 'restore' else 'dismiss' end,
            v_actor, 'core.outbox', v_now
        );
    end if;
    return new;
end
$$;

create or replace trigger outbox_write
instead of insert or update or delete on core.outbox
for each row execute function core.outbox_write();

-- PostgreSQL lets everyone call a new function. These act with the rights of their owner, so that
-- each has to be granted: outbox_enqueue to producers, outbox_replay to operators. The others are
-- called by these two and by the triggers alone.
revoke execute on function
core.homing_put, core.homing_replay, core.homing_audit, core.homing_force_failed,
core.outbox_enqueue, core.outbox_replay
from public;

-- The rows of the tables that were there, and who might use these.
do $$
declare
    v_grant record;
begin
    if to_regclass('core.outbox_before_homing') is not null then
        perform core.homing_put(
            b.event_id, b.event_type, b.payload, b.idempotency_key, b.source, b.target, b.status,
            b.generation, 0, null, null, b.created_at, b.deleted_at
        )
        from (select * from core.outbox_before_homing order by created_at) as b;
        for v_grant in
            select g.grantee, g.privilege_type from information_schema.role_table_grants as g
            where
                g.table_schema = 'core' and g.table_name = 'outbox_before_homing'
                and g.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
        loop
            execute format(
                'grant %s on core.outbox to %s', v_grant.privilege_type, case v_grant.grantee
                    when 'PUBLIC' then 'public' else quote_ident(v_grant.grantee)
                end
            );
        end loop;
        drop table core.outbox_before_homing;
    end if;
    if to_regclass('core.event_handled_before_homing') is not null then
        insert into homing_facts (kind, key, at_ms, value)
        select
            'event_handled', b.event_id || '/' || b.handler_name, core.homing_ms(b.handled_at),
            json_build_object(
                'key', b.idempotency_key, 'handler', b.handler_name, 'event_id', b.event_id
            )
        from core.event_handled_before_homing as b
        on conflict do nothing;
        drop table core.event_handled_before_homing;
    end if;
end
$$;

-- Parts of the one statement that adds, put together by adding.py. `:name` is a parameter: an array
-- with one element per row. It writes everything or, if a key is taken, nothing; then it says by
-- whom. What another transaction takes at the same moment is found by the unique indexes.

-- name: wanted_keys
wanted_keys as materialized (
    select homing_key_hash(w.source, w.name) as hash, w.*
    from :key_rows: as w (:key_columns:)
),
found_keys as materialized (
    select k.*, w.is_put, coalesce(k.expires_at_ms <= w.free_by_ms, false) as is_free
    from wanted_keys as w
    cross join lateral (select * from homing_keys as k where k.hash = w.hash) as k
    where k.source = w.source and k.key = w.name
)

-- name: taken_keys
select k.source, k.key, k.delivery_id, k.fingerprint, k.expires_at_ms
from found_keys as k
where not k.is_free

-- name: taken_ids
select null, null, r.id, null, null
from homing_records as r
where r.id = any(@id::text[])

-- name: nothing_taken
select null::text, null::text, null::text, null::text, null::bigint where false

-- name: free
free as materialized (select not exists (select from taken) as is_so)

-- name: records
put_records as (
    insert into homing_records (id, record, payload)
    select w.id, w.record, w.payload
    from :record_rows: as w (id, record, payload)
    where (select is_so from free)
)

-- name: open
put_open as (
    insert into homing_open (:columns:)
    select w.* from :open_rows: as w
    where (select is_so from free)
)

-- name: ended
put_ended as (
    insert into homing_ended (:columns:)
    select w.* from :ended_rows: as w
    where (select is_so from free)
)

-- name: results
put_results as (
    insert into homing_results (id, name, data)
    select w.id, w.name, w.data
    from :result_rows: as w (id, name, data)
    where (select is_so from free)
)

-- name: recipients
put_recipients as (
    insert into homing_recipients (address, id)
    select w.address, w.id
    from :recipient_rows: as w (address, id)
    where (select is_so from free)
    on conflict do nothing
)

-- Only an expired key is ever replaced. The insert reads from the delete, so that it comes after it.
-- name: keys
freed_keys as (
    delete from homing_keys as k
    using found_keys as f
    where
        f.is_free and f.is_put = 1 and k.hash = f.hash and k.expires_at_ms = f.expires_at_ms
        and (select is_so from free)
    returning k.hash
),
put_keys as (
    insert into homing_keys (hash, source, key, delivery_id, fingerprint, expires_at_ms)
    select w.hash, w.source, w.name, w.delivery_id, w.fingerprint, w.expires_at_ms
    from wanted_keys as w
    where w.is_put = 1 and (select is_so from free) and (select count(*) from freed_keys) >= 0
)

-- A whole statement for one delivery with one key (see adding_alone.py).
-- name: lone
with put_keys as (
    insert into homing_keys (hash, source, key, delivery_id, fingerprint, expires_at_ms)
    values (
        homing_key_hash(@key_source::text, @key_name::text), @key_source::text, @key_name::text,
        @delivery_id::text, @fingerprint::text, @expires_at_ms::bigint
    )
    on conflict do nothing
    returning 1
),
put_records as (
    insert into homing_records (id, record, payload)
    select @id::text, @record::text, @payload::bytea where exists (select from put_keys)
),
put_open as (
    insert into homing_open (:columns:)
    select :lone_values: where exists (select from put_keys)
)
select pg_notify('homing', '')::text from put_keys

-- name: facts
put_facts as (
    insert into homing_facts (kind, key, at_ms, value)
    select w.kind, w.key, w.at_ms, w.value
    from unnest(
        @fact_kind::text[], @fact_key::text[], @fact_at_ms::bigint[], @fact_value::text[]
    ) as w (kind, key, at_ms, value)
    where (select is_so from free)
    on conflict (kind, key) do update set at_ms = excluded.at_ms, value = excluded.value
)

-- name: dropped_facts
drop_facts as (
    delete from homing_facts as f
    using unnest(@dropped_kind::text[], @dropped_key::text[]) as w (kind, key)
    where f.kind = w.kind and f.key = w.key and (select is_so from free)
)

-- name: answer
select * from taken

-- name: answer_and_notify
select * from taken
union all
select null, null, null, pg_notify('homing', '')::text, null from free where is_so

-- Parts of the one statement that adds, put together by adding.py. `:name` is a parameter: an array
-- with one element per row. It writes everything or, if a key is taken, nothing; then it says by
-- whom. What another transaction takes at the same moment is found by the unique indexes.

-- name: taken_keys
select k.source, k.key, k.delivery_id, k.fingerprint, k.expires_at_ms
from unnest(
    @key_source::text[], @key_name::text[], @key_free_by_ms::bigint[]
) as w (source, key, free_by_ms)
cross join lateral (
    select * from homing_keys as k where k.hash = homing_key_hash(w.source, w.key)
) as k
where
    k.source = w.source and k.key = w.key
    and not coalesce(k.expires_at_ms <= w.free_by_ms, false)

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
    from unnest(
        @record_id::text[], @record_record::text[], @record_payload::bytea[]
    ) as w (id, record, payload)
    where (select is_so from free)
)

-- name: open
put_open as (
    insert into homing_open (:columns:)
    select w.* from unnest(:open_rows:) as w
    where (select is_so from free)
)

-- name: ended
put_ended as (
    insert into homing_ended (:columns:)
    select w.* from unnest(:ended_rows:) as w
    where (select is_so from free)
)

-- name: results
put_results as (
    insert into homing_results (id, name, data)
    select w.id, w.name, w.data
    from unnest(
        @result_id::text[], @result_name::text[], @result_data::bytea[]
    ) as w (id, name, data)
    where (select is_so from free)
)

-- name: recipients
put_recipients as (
    insert into homing_recipients (address, id)
    select w.address, w.id
    from unnest(@recipient_address::text[], @recipient_id::text[]) as w (address, id)
    where (select is_so from free)
    on conflict do nothing
)

-- Only an expired key is ever replaced. The insert reads from the delete, so that it comes after it.
-- name: keys
freed_keys as (
    delete from homing_keys as k
    using unnest(
        @new_key_source::text[], @new_key_name::text[], @new_key_free_by_ms::bigint[]
    ) as w (source, key, free_by_ms)
    where
        k.hash = homing_key_hash(w.source, w.key) and k.expires_at_ms <= w.free_by_ms
        and (select is_so from free)
    returning k.hash
),
put_keys as (
    insert into homing_keys (hash, source, key, delivery_id, fingerprint, expires_at_ms)
    select homing_key_hash(w.source, w.key), w.*
    from unnest(
        @new_key_source::text[], @new_key_name::text[], @new_key_delivery_id::text[],
        @new_key_fingerprint::text[], @new_key_expires_at_ms::bigint[]
    ) as w (source, key, delivery_id, fingerprint, expires_at_ms)
    where (select is_so from free) and (select count(*) from freed_keys) >= 0
)

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

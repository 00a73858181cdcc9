-- Parts of the one statement that writes a batch, put together by writing.py. `:rows:` is a table `w`
-- of the rows to write, `:names:` the names of its columns. What another transaction takes at the same
-- moment is found by the unique indexes: then nothing is written.

-- name: new_record
put_new_records as (insert into homing_records (:names:) select :names: from :rows:)

-- name: new_open
put_new_open as (insert into homing_open (:names:) select :names: from :rows:)

-- name: new_ended
put_new_ended as (insert into homing_ended (:names:) select :names: from :rows:)

-- name: new_result
put_new_results as (insert into homing_results (:names:) select :names: from :rows:)

-- name: recipient
put_recipients as (
    insert into homing_recipients (:names:) select :names: from :rows: on conflict do nothing
)

-- What is stored under the names of keys that are put: expired, or with another term.
-- name: replaced_key
replaced_keys as (
    delete from homing_keys as k
    using :rows:
    where
        k.hash = homing_key_hash(w.source, w.key) and k.source = w.source and k.key = w.key
        and k.delivery_id = w.delivery_id and k.expires_at_ms is not distinct from w.expires_at_ms
    returning k.hash
)

-- name: key
put_keys as (
    insert into homing_keys (hash, :names:)
    select homing_key_hash(w.source, w.key), :names:
    from :rows:
    :after_replaced:
)

-- The insert reads from the delete, so that it comes after it.
-- name: after_replaced
where (select count(*) from replaced_keys) >= 0

-- A row whose version is another one is left as it is, and nothing that belongs to it is written.
-- name: moved
changed_:table: as (
    delete from homing_:from: as o
    using :rows:
    where o.id = w.id and o.version = w.over
    returning :values:
),
put_:table: as (
    insert into homing_:to: (:columns:)
    select :columns: from changed_:table:
)

-- name: updated
changed_:table: as (
    update homing_:from: as o
    set :set:
    from :rows:
    where o.id = w.id and o.version = w.over
    returning o.id
)

-- name: record
put_records as (
    update homing_records as r
    set record = w.record
    from :rows:
    where r.id = w.id and :is_saved:
)

-- name: attempt
put_attempts as (
    insert into homing_attempts (delivery_id, number, route, ended_at_ms, record)
    select w.id, w.number, w.route, w.ended_at_ms, w.record
    from :rows:
    where :is_saved:
    on conflict (delivery_id, number) do update set
        route = excluded.route,
        ended_at_ms = excluded.ended_at_ms,
        record = excluded.record
)

-- name: result
put_results as (
    insert into homing_results (:names:)
    select :names:
    from :rows:
    where :is_saved:
    on conflict (id, name) do update set data = excluded.data
)

-- name: term
put_terms as (
    update homing_keys as k
    set expires_at_ms = w.expires_at_ms
    from :rows:
    where
        k.hash = homing_key_hash(w.source, w.key) and k.source = w.source and k.key = w.key
        and k.delivery_id = w.id and :is_saved:
)

-- A fact of the batch itself has no id: it is written in any case.
-- name: fact
put_facts as (
    insert into homing_facts (kind, key, at_ms, value)
    select w.kind, w.key, w.at_ms, w.value
    from :rows:
    where :is_saved:
    on conflict (kind, key) do update set at_ms = excluded.at_ms, value = excluded.value
)

-- name: dropped_fact
drop_facts as (
    delete from homing_facts as f
    using :rows:
    where f.kind = w.kind and f.key = w.key
)

-- As a part of a condition it stays a look into a hash table; as a condition of its own it would
-- become a join, row by row.
-- name: is_saved
(w.id is null or w.id in (select s.id from saved as s))

-- name: answer
select s.id from saved as s

-- name: answer_and_notify
select s.id from saved as s
union all
select pg_notify('homing', '')::text where exists (select from saved)

-- name: notify
select pg_notify('homing', '')::text

-- name: no_answer
select where false

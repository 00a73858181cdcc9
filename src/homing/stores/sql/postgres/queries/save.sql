-- Single statements, inside a transaction that reads before it writes (see exactly.py).

-- What is stored under these ids, locked until the end of the transaction.
-- name: stored_open
select d.carries, d.done_by, d.done_since_ms, r.record, :fresh:
from homing_open as d
cross join lateral (select * from homing_records as r where r.id = d.id) as r
where d.id = any(:ids::text[])
order by d.id
for update of d;

-- name: stored_ended
select d.carries, d.done_by, d.done_since_ms, r.record, :fresh:
from homing_ended as d
cross join lateral (select * from homing_records as r where r.id = d.id) as r
where d.id = any(:ids::text[])
order by d.id
for update of d;

-- name: there
select r.id from homing_records as r where r.id = any(:ids::text[]);

-- name: taken
select k.source, k.key, k.delivery_id, k.fingerprint, k.expires_at_ms
from unnest(:sources::text[], :keys::text[]) as w (source, key)
cross join lateral (
    select * from homing_keys as k where k.hash = homing_key_hash(w.source, w.key)
) as k
where k.source = w.source and k.key = w.key
union all
select null, null, r.id, null, null
from homing_records as r
where r.id = any(:ids::text[]);

-- name: remove_open
delete from homing_open where id = any(:ids::text[]);

-- name: remove_ended
delete from homing_ended where id = any(:ids::text[]);

-- name: remove_records
delete from homing_records where id = any(:ids::text[]);

-- name: remove_results
delete from homing_results where id = any(:ids::text[]);

-- name: remove_attempts
delete from homing_attempts where delivery_id = any(:ids::text[]);

-- name: drop_recipients
delete from homing_recipients as a
using unnest(:recipient_address::text[], :recipient_id::text[]) as w (address, id)
where a.address = w.address and a.id = w.id;

-- name: put_results
insert into homing_results (id, name, data)
select w.*
from unnest(:result_id::text[], :result_name::text[], :result_data::bytea[]) as w
on conflict (id, name) do update set data = excluded.data;

-- name: put_payload
update homing_records set payload = :payload::bytea where id = :id::text;

-- name: keep_payload
insert into homing_results (id, name, data)
select r.id, :name::text, coalesce(r.payload, ''::bytea)
from homing_records as r
where r.id = :id::text
on conflict (id, name) do update set data = excluded.data;

-- name: drop_results
delete from homing_results
where id = :id::text and not starts_with(name, :kept::text);

-- The parent's version stays: its holder must not lose the claim because a child ended. Open
-- children are counted here alone; a waiting delivery is due exactly while there are none.
-- name: count_open
update homing_open as o
set
    open_children = greatest(o.open_children + w.delta, 0),
    due_at_ms = case
        when o.state <> 'waiting' then o.due_at_ms
        when o.open_children + w.delta <= 0 then w.at_ms
    end
from unnest(:count_id::text[], :count_delta::bigint[], :count_at_ms::bigint[]) as w (id, delta, at_ms)
where o.id = w.id
returning o.id;

-- name: count_ended
update homing_ended as o
set open_children = greatest(o.open_children + w.delta, 0)
from unnest(:count_id::text[], :count_delta::bigint[], :count_at_ms::bigint[]) as w (id, delta, at_ms)
where o.id = w.id
returning o.id;

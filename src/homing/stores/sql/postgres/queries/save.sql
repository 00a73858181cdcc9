-- Parts of the one statement that saves deliveries which this process has claimed (see settling.py).
-- A row whose version is another one is left as it is, and nothing that belongs to it is written.

-- name: ended
ended as (
    delete from homing_open as o
    using :ended_rows: as w (:saved:)
    where o.id = w.id and o.version = w.over
    returning :ended_values:, :extras:
),
put_ended as (
    insert into homing_ended (:columns:)
    select :columns: from ended
)

-- name: updated
updated as (
    update homing_open as o
    set :set_open:
    from :updated_rows: as w (:saved:)
    where o.id = w.id and o.version = w.over
    returning o.id, o.route, :extras:
)

-- name: record
put_records as (
    update homing_records as r
    set record = s.new_record
    from saved as s
    where r.id = s.id and s.new_record is not null
)

-- name: attempt
put_attempts as (
    insert into homing_attempts (delivery_id, number, route, ended_at_ms, record)
    select s.id, s.attempt_number, s.route, s.attempt_ended_at_ms, s.attempt_record
    from saved as s
    where s.attempt_number is not null
    on conflict (delivery_id, number) do update set
        route = excluded.route,
        ended_at_ms = excluded.ended_at_ms,
        record = excluded.record
)

-- name: result
put_results as (
    insert into homing_results (id, name, data)
    select s.id, s.result_name, s.result_data
    from saved as s
    where s.result_name is not null
    on conflict (id, name) do update set data = excluded.data
)

-- name: term
put_terms as (
    update homing_keys as k
    set expires_at_ms = s.term_expires_at_ms
    from saved as s
    where
        s.term_key is not null
        and k.hash = homing_key_hash(s.term_source, s.term_key) and k.delivery_id = s.id
)

-- name: fact
put_facts as (
    insert into homing_facts (kind, key, at_ms, value)
    select s.fact_kind, s.fact_key, s.fact_at_ms, s.fact_value
    from saved as s
    where s.fact_kind is not null
    on conflict (kind, key) do update set at_ms = excluded.at_ms, value = excluded.value
)

-- name: call_facts
put_call_facts as (
    insert into homing_facts (kind, key, at_ms, value)
    select w.kind, w.key, w.at_ms, w.value
    from unnest(
        @fact_kind::text[], @fact_key::text[], @fact_at_ms::bigint[], @fact_value::text[]
    ) as w (kind, key, at_ms, value)
    on conflict (kind, key) do update set at_ms = excluded.at_ms, value = excluded.value
)

-- name: call_dropped_facts
drop_call_facts as (
    delete from homing_facts as f
    using unnest(@dropped_kind::text[], @dropped_key::text[]) as w (kind, key)
    where f.kind = w.kind and f.key = w.key
)

-- name: answer
select id from saved

-- name: answer_and_notify
select id from saved
union all
select pg_notify('homing', '')::text where exists (select from saved)

-- name: facts_alone
select 1 where false

-- Single statements, for a save that reads first (see saving.py).

-- What is stored under these ids, locked until the end of the transaction.
-- name: stored_open
select d.carries, d.done_by, d.done_since_ms, d.payload_bytes, r.record, :fresh:
from homing_open as d
cross join lateral (select * from homing_records as r where r.id = d.id) as r
where d.id = any(@ids::text[])
order by d.id
for update of d;

-- name: stored_ended
select d.carries, d.done_by, d.done_since_ms, d.payload_bytes, r.record, :fresh:
from homing_ended as d
cross join lateral (select * from homing_records as r where r.id = d.id) as r
where d.id = any(@ids::text[])
order by d.id
for update of d;

-- name: take_out_open
delete from homing_open where id = any(@ids::text[]);

-- name: take_out_ended
delete from homing_ended where id = any(@ids::text[]);

-- name: put_open
insert into homing_open (:columns:)
select w.* from :open_rows: as w;

-- name: put_ended
insert into homing_ended (:columns:)
select w.* from :ended_rows: as w;

-- name: put_records
update homing_records as r
set record = w.record
from unnest(@record_id::text[], @record_record::text[]) as w (id, record)
where r.id = w.id;

-- name: put_attempts
insert into homing_attempts (delivery_id, number, route, ended_at_ms, record)
select w.*
from unnest(
    @attempt_delivery_id::text[], @attempt_number::bigint[], @attempt_route::text[],
    @attempt_ended_at_ms::bigint[], @attempt_record::text[]
) as w
on conflict (delivery_id, number) do update set
    route = excluded.route,
    ended_at_ms = excluded.ended_at_ms,
    record = excluded.record;

-- name: put_results
insert into homing_results (id, name, data)
select w.*
from unnest(@result_id::text[], @result_name::text[], @result_data::bytea[]) as w
on conflict (id, name) do update set data = excluded.data;

-- name: put_terms
update homing_keys as k
set expires_at_ms = w.expires_at_ms
from unnest(
    @term_source::text[], @term_key::text[], @term_delivery_id::text[], @term_expires_at_ms::bigint[]
) as w (source, key, delivery_id, expires_at_ms)
where
    k.hash = homing_key_hash(w.source, w.key)
    and k.source = w.source and k.key = w.key and k.delivery_id = w.delivery_id;

-- name: put_recipients
insert into homing_recipients (address, id)
select w.address, w.id
from unnest(@recipient_address::text[], @recipient_id::text[]) as w (address, id)
on conflict do nothing;

-- name: drop_recipients
delete from homing_recipients as a
using unnest(@recipient_address::text[], @recipient_id::text[]) as w (address, id)
where a.address = w.address and a.id = w.id;

-- name: put_payload
update homing_records set payload = @payload::bytea where id = @id::text;

-- name: keep_payload
insert into homing_results (id, name, data)
select r.id, @name::text, coalesce(r.payload, ''::bytea)
from homing_records as r
where r.id = @id::text
on conflict (id, name) do update set data = excluded.data;

-- name: drop_results
delete from homing_results
where id = @id::text and not starts_with(name, @kept::text);

-- name: forget_attempts
delete from homing_attempts where delivery_id = @id::text;

-- name: remove_records
delete from homing_records where id = any(@ids::text[]);

-- name: remove_results
delete from homing_results where id = any(@ids::text[]);

-- The parent's version stays: its holder must not lose the claim because a child ended. Open
-- children are counted here alone; a waiting delivery is due exactly while there are none.
-- name: tell_open_parent
update homing_open
set
    open_children = greatest(open_children + @delta::bigint, 0),
    due_at_ms = case
        when state <> 'waiting' then due_at_ms
        when open_children + @delta::bigint <= 0 then @at_ms::bigint
    end
where id = @id::text
returning id;

-- name: tell_ended_parent
update homing_ended
set open_children = greatest(open_children + @delta::bigint, 0)
where id = @id::text
returning id;

-- name: is_there
select 1 from homing_records where id = @id::text;

-- name: notify
select pg_notify('homing', '')::text;

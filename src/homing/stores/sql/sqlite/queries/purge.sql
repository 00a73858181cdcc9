-- The oldest are removed first: each statement below reads in order, and the results are merged.

-- name: routes_of_deliveries
select distinct route from homing_deliveries where ended_at_ms is not null;

-- A child is kept as long as its parent's record.
-- name: removable
select d.ended_at_ms, d.id, d.seq, d.carries, d.done_by, d.done_since_ms, r.record, :fresh:
from homing_deliveries as d
cross join homing_records as r on r.seq = d.seq
where
    d.route = ? and d.state = ? and d.carries = ? and d.ended_at_ms < ?
    and not exists (select 1 from homing_deliveries as p where p.id = d.parent_id)
order by d.ended_at_ms, d.id;

-- name: emptiable
select d.ended_at_ms, d.id, d.seq
from homing_deliveries as d
where d.route = ? and d.state = ? and d.carries = ? and d.ended_at_ms < ?
order by d.ended_at_ms, d.id;

-- name: empty
update homing_deliveries set carries = carries & 4 where seq = ?;

-- name: remove_delivery
delete from homing_deliveries where seq = ?;

-- name: remove_record
delete from homing_records where seq = ?;

-- name: remove_content
delete from homing_contents where seq = ?;

-- name: remove_results
delete from homing_results where seq = ?;

-- name: remove_recipient
delete from homing_recipients where address = ? and seq = ?;

-- name: routes_of_attempts
select distinct route from homing_attempts where ended_at_ms is not null
union
select distinct route from homing_deliveries where ended_at_ms is not null;

-- Those of a delivery that has not ended stay: they say whether it may have been sent.
-- name: old_attempts
select a.ended_at_ms, a.delivery_id, a.number, 0
from homing_attempts as a
left join homing_deliveries as d on d.id = a.delivery_id
where
    a.route = ? and a.ended_at_ms < ?
    and (d.state is null or d.state not in ('pending', 'in_flight', 'waiting'))
order by a.ended_at_ms, a.delivery_id, a.number;

-- name: old_implied_attempts
select d.ended_at_ms, d.id, d.attempts_ended, d.seq
from homing_deliveries as d
where d.route = ? and d.state = 'delivered' and d.carries = ? and d.ended_at_ms < ?
order by d.ended_at_ms, d.id;

-- name: remove_attempt
delete from homing_attempts where delivery_id = ? and number = ?;

-- name: remove_implied_attempt
update homing_deliveries
set carries = carries & 3, done_by = null, done_since_ms = null
where seq = ?;

-- name: remove_keys
delete from homing_keys
where (source, key) in (
    select source, key from homing_keys
    where expires_at_ms < ?
    order by expires_at_ms, source, key
    limit ?
);

-- name: remove_facts
delete from homing_facts
where (kind, key) in (
    select kind, key from homing_facts
    where at_ms < ?1 and (?2 is null or kind = ?2)
    order by at_ms, kind, key
    limit ?3
);

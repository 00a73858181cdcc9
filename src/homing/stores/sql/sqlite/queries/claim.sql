-- name: due
select
    d.due_at_ms, d.id, d.state, d.holder, d.seq,
    d.version, d.claims, d.open_children, d.carries, d.record, c.payload
from homing_deliveries as d indexed by homing_deliveries_due
left join homing_contents as c on c.seq = d.seq
where
    d.lane = ? and d.priority = ? and d.due_at_ms <= ?
    and d.state in ('pending', 'in_flight', 'waiting')
order by d.due_at_ms, d.id;

-- name: take
update homing_deliveries
set
    state = 'in_flight',
    holder = ?1,
    due_at_ms = ?2,
    claimed_at_ms = ?3,
    claims = claims + 1,
    version = version + 1
where seq in (select value from json_each(?4));

-- name: results
select r.seq, r.name, r.data
from json_each(?) as w
cross join homing_results as r on r.seq = w.value;

-- name: renew
update homing_deliveries
set due_at_ms = ?
where id = ? and version = ? and holder = ? and state = 'in_flight';

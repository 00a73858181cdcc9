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
    holder = ?,
    due_at_ms = ?,
    claimed_at_ms = ?,
    claims = claims + 1,
    version = version + 1
where seq in (select value from json_each(?));

-- name: results
select seq, name, data from homing_results where seq in (select value from json_each(?));

-- name: renew
update homing_deliveries
set due_at_ms = ?
where id = ? and version = ? and holder = ? and state = 'in_flight';

-- The first eight columns are those that are truer than the record (rows.py, `Fresh`).

-- name: get
select
    d.state, d.holder, d.due_at_ms, d.claimed_at_ms, d.claims, d.version, d.open_children,
    d.marked_at_ms, d.record
from homing_deliveries as d
where d.id = ?;

-- name: page
select
    d.state, d.holder, d.due_at_ms, d.claimed_at_ms, d.claims, d.version, d.open_children,
    d.marked_at_ms, d.record;

-- name: payload
select d.seq, c.payload
from homing_deliveries as d
left join homing_contents as c on c.seq = d.seq
where d.id = ?;

-- name: results
select name, data from homing_results where seq = ?;

-- name: find
select source, key, delivery_id, fingerprint, expires_at_ms
from homing_keys
where source = ? and key = ?;

-- name: attempts
select record from homing_attempts where delivery_id = ? order by number;

-- name: facts
select kind, key, at_ms, value from homing_facts where kind = ? and key >= ? order by key;

-- name: oldest_facts
select kind, key, at_ms, value
from homing_facts
where kind = ? and (at_ms, key) > (?, ?)
order by at_ms, key;

-- name: newest_facts
select kind, key, at_ms, value
from homing_facts
where kind = ? and (at_ms, key) < (?, ?)
order by at_ms desc, key desc;

-- name: next_due
select d.due_at_ms
from homing_deliveries as d indexed by homing_deliveries_due
where
    d.lane = ? and d.priority = ? and d.due_at_ms is not null
    and d.state in ('pending', 'in_flight', 'waiting')
order by d.due_at_ms
limit 1;

-- name: get
select r.record, :fresh:
from homing_deliveries as d
cross join homing_records as r on r.seq = d.seq
where d.id = ?;

-- name: page
select r.record, :fresh:

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

-- name: implied_attempt
select d.done_by, d.done_since_ms, r.record, :fresh:
from homing_deliveries as d
cross join homing_records as r on r.seq = d.seq
where d.id = ? and d.carries & 4 <> 0;

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

-- name: next_ready
select d.due_at_ms
from homing_deliveries as d indexed by homing_deliveries_ready
where
    d.queue = ? and d.priority = ?
    and d.state in ('pending', 'waiting') and d.due_at_ms is not null
order by d.due_at_ms
limit 1;

-- name: next_lease_end
select d.due_at_ms
from homing_deliveries as d indexed by homing_deliveries_leases
where d.queue = ? and d.state = 'in_flight' and d.due_at_ms is not null
order by d.due_at_ms
limit 1;

-- All deliveries by route, queue and state, for counts that ask for no more than these; dead letters
-- also by error class and reason. Those in flight and waiting are part of what `homing_counts` calls
-- open; the rest of it is pending.
-- name: standing
from (
    select
        c.route, c.queue, iif(c.state = 'open', 'pending', c.state) as state,
        c.error_class, c.failed_because, c.number
    from homing_counts as c
    union all
    select b.route, b.queue, 'pending', '', '', -1
    from homing_deliveries as b indexed by homing_deliveries_leases
    where b.state = 'in_flight'
    union all
    select b.route, b.queue, 'in_flight', '', '', 1
    from homing_deliveries as b indexed by homing_deliveries_leases
    where b.state = 'in_flight'
    union all
    select b.route, b.queue, 'pending', '', '', -1
    from homing_deliveries as b indexed by homing_deliveries_waiting
    where b.state = 'waiting'
    union all
    select b.route, b.queue, 'waiting', '', '', 1
    from homing_deliveries as b indexed by homing_deliveries_waiting
    where b.state = 'waiting'
    limit -1 -- without it, conditions from outside are moved inside, past the chosen indexes
) as d;

-- Of one state, through the index that has it: for a state that few deliveries have.
-- name: seqs_of_pending
select b.seq
from homing_deliveries as b indexed by homing_deliveries_ready
where b.state in ('pending', 'waiting') and b.due_at_ms is not null and b.state = 'pending';

-- name: seqs_of_in_flight
select b.seq
from homing_deliveries as b indexed by homing_deliveries_leases
where b.state = 'in_flight';

-- name: seqs_of_waiting
select b.seq
from homing_deliveries as b indexed by homing_deliveries_waiting
where b.state = 'waiting';

-- name: seqs_of_failed
select b.seq
from homing_deliveries as b indexed by homing_deliveries_errors
where b.state = 'failed' and b.route = :route
union all
select b.seq
from homing_deliveries as b indexed by homing_deliveries_errors
where b.state = 'failed' and :route is null;

-- name: seqs_of_ended
select b.seq
from (select distinct c.route from homing_counts as c where c.state = ':state:') as c
cross join homing_deliveries as b indexed by homing_deliveries_ended
    on b.route = c.route and b.state = ':state:' and b.ended_at_ms is not null
where :route is null or c.route = :route;

-- name: number_of_error
select coalesce(sum(c.number), 0)
from homing_counts as c
where
    c.state = 'failed' and c.error_class = :error_class
    and (:route is null or c.route = :route);

-- name: seqs_of_error
select b.seq
from (select distinct c.route from homing_counts as c where c.state = 'failed') as c
cross join homing_deliveries as b indexed by homing_deliveries_errors
    on b.route = c.route and b.error_class = :error_class and b.state = 'failed'
where :route is null or c.route = :route;

-- name: one_more_to_address
select 1 from homing_recipients as a where a.address = :address limit 1 offset :few;

-- name: records
cross join homing_records as r on r.seq = d.seq;

-- name: get
select r.record, :fresh:
from homing_deliveries as d
:records:
where d.id = :id;

-- name: get_many
select r.record, :fresh:
from homing_deliveries as d
:records:
where d.id in (select value from json_each(:ids));

-- name: content
select null, c.payload
from homing_deliveries as d
left join homing_contents as c on c.seq = d.seq
where d.id = :id
union all
select x.name, x.data
from homing_deliveries as d
cross join homing_results as x on x.seq = d.seq
where d.id = :id;

-- name: find
select source, key, delivery_id, fingerprint, expires_at_ms
from homing_keys
where source = :source and key = :key;

-- name: attempts
select a.record, null, null, null, :no_fresh:
from homing_attempts as a
where a.delivery_id in (select value from json_each(:ids))
union all
select null, d.done_by, d.done_since_ms, r.record, :fresh:
from homing_deliveries as d
:records:
where d.id in (select value from json_each(:ids)) and d.carries & 4 <> 0;

-- name: facts
select key, at_ms, value
from homing_facts
where kind = :kind and key >= :start and key < :until and key is not :after
order by key
limit :limit;

-- name: facts_by_time
select key, at_ms, value
from homing_facts
where kind = :kind and key >= :start and key < :until and (at_ms, key) :beyond: (:at_ms, :after)
order by at_ms :direction:, key :direction:
limit :limit;

-- name: next_due
select min(x.due_at_ms)
from (
    select (
        select d.due_at_ms
        from homing_deliveries as d indexed by homing_deliveries_ready
        where
            d.queue = w.value and d.priority = v.value
            and d.state in ('pending', 'waiting') and d.due_at_ms is not null
        order by d.due_at_ms
        limit 1
    ) as due_at_ms
    from json_each(:queues) as w
    cross join json_each('[1, 2, 3, 4]') as v
    union all
    select (
        select d.due_at_ms
        from homing_deliveries as d indexed by homing_deliveries_leases
        where d.queue = w.value and d.state = 'in_flight' and d.due_at_ms is not null
        order by d.due_at_ms
        limit 1
    )
    from json_each(:queues) as w
) as x;

-- name: deliveries
from homing_deliveries as d;

-- The planner does not know that few are in flight, owe a notice or have failed since lately.
-- name: deliveries_by_index
from homing_deliveries as d indexed by homing_deliveries_:index:;

-- The address first: a cross join keeps the planner from changing the order.
-- name: deliveries_of_recipient
from homing_recipients as a
cross join homing_deliveries as d on d.seq = a.seq and a.address = :recipient;

-- name: for_recipient
exists (select 1 from homing_recipients as a where a.address = :recipient and a.seq = d.seq);

-- name: among
d.seq in (select value from json_each(:rows));

-- name: page
select r.record, :fresh:
:from:
:records:
:where:
:order:;

-- An address may have very many, in no order: only those of the page are read whole.
-- name: page_of_recipient
select r.record, :fresh:
from homing_deliveries as d
:records:
where d.seq in (select d.seq :from: :where: :order:)
:order:;

-- name: places
select d.created_at_ms, d.id from homing_deliveries as d :where: :order: offset :passed;

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

-- The indexes of what is open do not tell routes apart.
-- name: numbers
select d.state, sum(d.number)
:standing:
where :route is null or d.route = :route or d.state in ('pending', 'in_flight', 'waiting')
group by d.state;

-- name: numbers_ended
select c.state, sum(c.number)
from homing_counts as c
where
    (:route is null or c.route = :route) and (:error_class is null or c.error_class = :error_class)
group by c.state;

-- Of one state, through the index that has it: for a state that few deliveries have.
-- name: rows_of_pending
select b.seq
from homing_deliveries as b indexed by homing_deliveries_ready
where b.state in ('pending', 'waiting') and b.due_at_ms is not null and b.state = 'pending';

-- name: rows_of_in_flight
select b.seq
from homing_deliveries as b indexed by homing_deliveries_leases
where b.state = 'in_flight';

-- name: rows_of_waiting
select b.seq
from homing_deliveries as b indexed by homing_deliveries_waiting
where b.state = 'waiting';

-- name: rows_of_ended
select b.seq
from (select distinct c.route from homing_counts as c where c.state = :state) as c
cross join homing_deliveries as b indexed by homing_deliveries_ended
    on b.route = c.route and b.state = :state and b.ended_at_ms is not null
where :route is null or c.route = :route;

-- name: rows_of_error
select b.seq
from (select distinct c.route from homing_counts as c where c.state = 'failed') as c
cross join homing_deliveries as b indexed by homing_deliveries_errors
    on b.route = c.route and b.error_class = :error_class and b.state = 'failed'
where :route is null or c.route = :route;

-- name: one_more_to_address
select 1 from homing_recipients as a where a.address = :address limit 1 offset :few;

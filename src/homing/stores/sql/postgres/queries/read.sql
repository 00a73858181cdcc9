-- The limit keeps records from being read first, which empty tables suggest to the planner.
-- name: records
cross join lateral (select r.record from homing_records as r where r.id = d.id limit 1) as r;

-- name: get
select r.record, :fresh:
from homing_deliveries as d
:records:
where d.id = :id::text;

-- name: get_many
select r.record, :fresh:
from homing_deliveries as d
:records:
where d.id = any(array(select json_array_elements_text(:ids::json)));

-- name: content
select null::text as name, r.payload as data from homing_records as r where r.id = :id::text
union all
select x.name, x.data from homing_results as x where x.id = :id::text;

-- name: find
select k.source, k.key, k.delivery_id, k.fingerprint, k.expires_at_ms
from homing_keys as k
where
    k.hash = homing_key_hash(:source::text, :key::text)
    and k.source = :source::text and k.key = :key::text;

-- name: attempts
select a.record, null::text as done_by, null::bigint as done_since_ms, null::text as delivery, :no_fresh:
from homing_attempts as a
where a.delivery_id = any(array(select json_array_elements_text(:ids::json)))
union all
select null, d.done_by, d.done_since_ms, r.record, :fresh:
from homing_ended as d
:records:
where d.id = any(array(select json_array_elements_text(:ids::json))) and d.carries & 4 <> 0;

-- name: facts
select f.key, f.at_ms, f.value
from homing_facts as f
where
    f.kind = :kind::text and f.key >= :start::text and f.key < :until::text
    and f.key is distinct from :after::text
order by f.key
limit :limit::bigint;

-- `start` is the prefix: a range of keys would be read by the other index, and sorted.
-- name: facts_by_time
select f.key, f.at_ms, f.value
from homing_facts as f
where
    f.kind = :kind::text and starts_with(f.key, :start::text)
    and (f.at_ms, f.key) :beyond: (:at_ms::bigint, :after::text)
order by f.at_ms :direction:, f.key :direction:
limit :limit::bigint;

-- name: known_facts
select f.key
from homing_facts as f
where
    f.kind = :kind::text
    and f.key = any(array(select json_array_elements_text(:keys::json)));

-- name: next_due
select min(x.due_at_ms)
from json_array_elements_text(:queues::json) as l (queue)
cross join lateral (
    select o.due_at_ms from (values (1), (2), (3), (4)) as p (priority)
    cross join lateral (
        select o.due_at_ms
        from homing_open as o
        where
            o.queue = l.queue and o.priority = p.priority
            and o.state in ('pending', 'waiting') and o.due_at_ms is not null
        order by o.due_at_ms
        limit 1
    ) as o
    union all
    (
        select o.due_at_ms
        from homing_open as o
        where o.queue = l.queue and o.state = 'in_flight' and o.due_at_ms is not null
        order by o.due_at_ms
        limit 1
    )
) as x;

-- name: deliveries
from homing_deliveries as d;

-- name: deliveries_by_index
:deliveries:;

-- The address first: the limit keeps the planner from changing the order.
-- name: deliveries_of_recipient
from (select a.id from homing_recipients as a where a.address = :recipient) as a
cross join lateral (select * from homing_deliveries as d where d.id = a.id limit 1) as d;

-- A limit keeps it a question about each delivery: as a join, all to the address would be read.
-- name: for_recipient
(select true from homing_recipients as a where a.address = :recipient and a.id = d.id limit 1);

-- name: among
d.id = any(array(select json_array_elements_text(:rows::json)));

-- name: page
select r.record, :fresh:
:from:
join homing_records as r on r.id = d.id
:where:
:order:;

-- name: page_of_recipient
:page:;

-- name: places
select d.created_at_ms, d.id from homing_deliveries as d :where: :order: offset :passed;

-- name: standing
from (
    select c.route, c.queue, c.state, c.error_class, c.failed_because, c.number
    from homing_counts as c
    union all
    select o.route, o.queue, o.state, '', '', count(*) from homing_open as o
    group by o.route, o.queue, o.state
) as d;

-- name: numbers_ended
select c.state, sum(c.number)::bigint
from homing_counts as c
where
    (:route::text is null or c.route = :route::text)
    and (:error_class::text is null or c.error_class = :error_class::text)
group by c.state;

-- name: rows_of_ended
select e.id
from homing_ended as e
where
    e.route = any(array(select distinct c.route from homing_counts as c))
    and (:route::text is null or e.route = :route::text)
    and e.state = :state::text and e.ended_at_ms is not null;

-- name: rows_of_error
select e.id
from homing_ended as e
where
    e.route = any(array(select distinct c.route from homing_counts as c))
    and (:route::text is null or e.route = :route::text)
    and e.error_class = :error_class::text and e.state = 'failed';

-- name: one_more_to_address
select 1 from homing_recipients as a where a.address = :address::text limit 1 offset :few::bigint;

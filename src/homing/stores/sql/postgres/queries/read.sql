-- name: get
select r.record, :fresh:
from homing_deliveries as d
cross join lateral (select * from homing_records as r where r.id = d.id) as r
where d.id = any(@ids::text[]);

-- name: page
select r.record, :fresh:

-- name: content
select r.payload, x.name, x.data
from homing_records as r
left join homing_results as x on x.id = r.id
where r.id = @id::text;

-- name: find
select k.source, k.key, k.delivery_id, k.fingerprint, k.expires_at_ms
from homing_keys as k
where
    k.hash = homing_key_hash(@source::text, @key::text)
    and k.source = @source::text and k.key = @key::text;

-- The last row of a delivery that implies the attempt which delivered it has no record of its own.
-- name: attempts
select a.record, null::text as done_by, null::bigint as done_since_ms, null::text as delivery, :no_fresh:
from homing_attempts as a
where a.delivery_id = any(@ids::text[])
union all
select null, d.done_by, d.done_since_ms, r.record, :fresh:
from homing_ended as d
cross join lateral (select * from homing_records as r where r.id = d.id) as r
where d.id = any(@ids::text[]) and d.carries & 4 <> 0;

-- The keys that start with the prefix are next to each other, before `until`.
-- name: facts
select f.kind, f.key, f.at_ms, f.value
from homing_facts as f
where
    f.kind = @kind::text and f.key >= @prefix::text
    and (@until::text is null or f.key < @until::text)
    and (@after::text is null or f.key > @after::text)
order by f.key
limit @limit::bigint;

-- name: oldest_facts
select f.kind, f.key, f.at_ms, f.value
from homing_facts as f
where
    f.kind = @kind::text and starts_with(f.key, @prefix::text)
    and (f.at_ms, f.key) > (@at_ms::bigint, @after::text)
order by f.at_ms, f.key
limit @limit::bigint;

-- name: newest_facts
select f.kind, f.key, f.at_ms, f.value
from homing_facts as f
where
    f.kind = @kind::text and starts_with(f.key, @prefix::text)
    and (f.at_ms, f.key) < (@at_ms::bigint, @after::text)
order by f.at_ms desc, f.key desc
limit @limit::bigint;

-- name: next_due
select min(x.due_at_ms)
from unnest(@queues::text[]) as l (queue)
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

-- name: standing
from (
    select c.route, c.queue, c.state, c.error_class, c.failed_because, c.number
    from homing_counts as c
    union all
    select o.route, o.queue, o.state, '', '', count(*) from homing_open as o
    group by o.route, o.queue, o.state
) as d

-- name: numbers_ended
select c.state, sum(c.number)::bigint
from homing_counts as c
where
    (@route::text is null or c.route = @route::text)
    and (@error_class::text is null or c.error_class = @error_class::text)
group by c.state;

-- name: ids_ended
select e.id
from homing_ended as e
where
    e.route = any(array(select distinct c.route from homing_counts as c))
    and (@route::text is null or e.route = @route::text)
    and e.state = @state::text and e.ended_at_ms is not null;

-- name: ids_failed
select e.id
from homing_ended as e
where
    e.route = any(array(select distinct c.route from homing_counts as c))
    and (@route::text is null or e.route = @route::text)
    and e.error_class = @error_class::text and e.state = 'failed';

-- name: one_more_to_address
select 1 from homing_recipients as a where a.address = @address::text limit 1 offset @few::bigint;

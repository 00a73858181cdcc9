-- The oldest first: each range is read in order, and no further than the limit.

-- The routes by jumps from one to the next: there are few, and many rows of each.
-- name: routes
with recursive found as (
    (select d.route from homing_ended as d where d.ended_at_ms is not null order by d.route limit 1)
    union all
    select (
        select d.route
        from homing_ended as d
        where d.ended_at_ms is not null and d.route > f.route
        order by d.route
        limit 1
    )
    from found as f
    where f.route is not null
),
of_attempts as (
    (
        select a.route
        from homing_attempts as a
        where a.ended_at_ms is not null
        order by a.route
        limit 1
    )
    union all
    select (
        select a.route
        from homing_attempts as a
        where a.ended_at_ms is not null and a.route > f.route
        order by a.route
        limit 1
    )
    from of_attempts as f
    where f.route is not null
)
select route from found where route is not null
union
select route from of_attempts where route is not null;

-- A child is kept as long as its parent's record.
-- name: removable
select x.id, x.carries, x.done_by, x.done_since_ms, x.record, :fresh_of_x:
from unnest(@routes::text[], @states::text[], @carries::bigint[]) as w (route, state, carries)
cross join lateral (
    select d.id, d.carries, d.done_by, d.done_since_ms, r.record, :fresh:
    from homing_ended as d
    cross join lateral (select * from homing_records as r where r.id = d.id) as r
    where
        d.route = w.route and d.state = w.state and d.carries = w.carries
        and d.ended_at_ms < @before_ms::bigint and d.ended_at_ms is not null
        and not exists (select from homing_records as p where p.id = d.parent_id)
    order by d.ended_at_ms, d.id
    limit @limit::bigint
    for update of d skip locked
) as x
order by x.ended_at_ms, x.id
limit @limit::bigint;

-- name: emptiable
select x.id
from unnest(@routes::text[], @states::text[], @carries::bigint[]) as w (route, state, carries)
cross join lateral (
    select d.id, d.ended_at_ms
    from homing_ended as d
    where
        d.route = w.route and d.state = w.state and d.carries = w.carries
        and d.ended_at_ms < @before_ms::bigint and d.ended_at_ms is not null
    order by d.ended_at_ms, d.id
    limit @limit::bigint
    for update of d skip locked
) as x
order by x.ended_at_ms, x.id
limit @limit::bigint;

-- name: empty
update homing_ended set carries = carries & 4, payload_bytes = 0 where id = any(@ids::text[]);

-- name: empty_records
update homing_records set payload = null where id = any(@ids::text[]);

-- name: remove_deliveries
delete from homing_ended where id = any(@ids::text[]);

-- Those of a delivery that has not ended stay: they say whether it may have been sent.
-- name: old_attempts
select x.delivery_id, x.number, x.is_implied
from unnest(@routes::text[]) as w (route)
cross join lateral (
    (
        select a.delivery_id, a.number, a.ended_at_ms, false as is_implied
        from homing_attempts as a
        where
            a.route = w.route and a.ended_at_ms < @before_ms::bigint and a.ended_at_ms is not null
            and not exists (select from homing_open as o where o.id = a.delivery_id)
        order by a.ended_at_ms, a.delivery_id, a.number
        limit @limit::bigint
    )
    union all
    select y.*
    from (values (4), (5), (6), (7)) as c (carries)
    cross join lateral (
        select d.id, d.attempts_ended, d.ended_at_ms, true
        from homing_ended as d
        where
            d.route = w.route and d.state = 'delivered' and d.carries = c.carries
            and d.ended_at_ms < @before_ms::bigint and d.ended_at_ms is not null
        order by d.ended_at_ms, d.id
        limit @limit::bigint
    ) as y
) as x
order by x.ended_at_ms, x.delivery_id, x.number
limit @limit::bigint;

-- name: remove_attempts
delete from homing_attempts as a
using unnest(@ids::text[], @numbers::bigint[]) as w (id, number)
where a.delivery_id = w.id and a.number = w.number
returning a.delivery_id;

-- name: remove_implied_attempts
update homing_ended
set carries = carries & 3, done_by = null, done_since_ms = null
where id = any(@ids::text[]) and carries & 4 <> 0
returning id;

-- name: remove_keys
delete from homing_keys
where hash = any(array(
    select hash from homing_keys
    where expires_at_ms < @before_ms::bigint
    order by expires_at_ms, source, key
    limit @limit::bigint
    for update skip locked
))
returning hash;

-- name: remove_facts
delete from homing_facts
where ctid = any(array(
    select ctid from homing_facts
    where at_ms < @before_ms::bigint and (@kind::text is null or kind = @kind::text)
    order by at_ms, kind, key
    limit @limit::bigint
    for update skip locked
))
returning key;

-- Rows that another process adds up at this moment are left to it.
-- name: add_counts_up
with gone as (
    delete from homing_counts
    where
        ctid = any(array(select ctid from homing_counts limit 100000 for update skip locked))
        and (select count(*) from (select from homing_counts limit 200) as few) = 200
    returning route, queue, state, error_class, failed_because, number
)
insert into homing_counts (route, queue, state, error_class, failed_because, number)
select g.route, g.queue, g.state, g.error_class, g.failed_because, sum(g.number)
from gone as g
group by g.route, g.queue, g.state, g.error_class, g.failed_because
having sum(g.number) <> 0;

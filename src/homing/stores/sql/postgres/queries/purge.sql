-- Those of attempts by jumps from one to the next: there are few, and many rows of each.
-- name: routes
with recursive of_attempts as (
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
select c.route from homing_counts as c
union
select f.route from of_attempts as f where f.route is not null;

-- The oldest of all ranges of the index: each is read in order, and no further than the limit.
-- Children are kept as long as their parent's record.
-- name: old_deliveries
select d.id, d.carries, d.done_by, d.done_since_ms, r.record, :fresh:
from json_array_elements_text(:routes::json) as w (route)
cross join json_array_elements_text(:states::json) as s (state)
cross join json_array_elements_text(:carrying::json) as v (carries)
cross join lateral (
    select d.*
    from homing_ended as d
    where
        d.route = w.route and d.state = s.state and d.carries = v.carries::smallint
        and d.ended_at_ms < :before_ms::bigint and d.ended_at_ms is not null
        and (
            not :keeps_family::boolean
            or (select true from homing_records as p where p.id = d.parent_id limit 1) is null
        )
    order by d.ended_at_ms, d.id
    limit :limit::bigint
    for update of d skip locked
) as d
:records:
order by d.ended_at_ms, d.id
limit :limit::bigint;

-- name: remove_deliveries
insert into homing_attempts (delivery_id, number, route, ended_at_ms, record)
select w ->> 0, (w ->> 1)::bigint, w ->> 2, (w ->> 3)::bigint, w ->> 4
from json_array_elements(:attempts::json) as w
on conflict (delivery_id, number) do update set record = excluded.record;
delete from homing_recipients as a
using json_array_elements(:recipients::json) as w
where a.address = w ->> 0 and a.id = w ->> 1;
delete from homing_ended where id = any(array(select json_array_elements_text(:rows::json)));
delete from homing_records where id = any(array(select json_array_elements_text(:rows::json)));
delete from homing_results where id = any(array(select json_array_elements_text(:rows::json)));

-- name: empty
update homing_ended set carries = carries & 4, payload_bytes = 0
where id = any(array(select json_array_elements_text(:rows::json)));
update homing_records set payload = null
where id = any(array(select json_array_elements_text(:rows::json)));
delete from homing_results where id = any(array(select json_array_elements_text(:rows::json)));

-- Those of a delivery that has not ended stay: they say whether it may have been sent.
-- name: old_attempts
select a.ended_at_ms, a.delivery_id, a.number
from json_array_elements_text(:routes::json) as w (route)
cross join lateral (
    select a.ended_at_ms, a.delivery_id, a.number
    from homing_attempts as a
    where
        a.route = w.route and a.ended_at_ms < :before_ms::bigint and a.ended_at_ms is not null
        and not exists (select from homing_open as o where o.id = a.delivery_id)
    order by a.ended_at_ms, a.delivery_id, a.number
    limit :limit::bigint
) as a
order by a.ended_at_ms, a.delivery_id, a.number
limit :limit::bigint;

-- name: remove_attempts
delete from homing_attempts as a
using json_array_elements(:attempts::json) as w
where a.delivery_id = w ->> 0 and a.number = (w ->> 1)::bigint
returning 1;

-- name: remove_implied_attempts
update homing_ended
set carries = carries & 3, done_by = null, done_since_ms = null
where id = any(array(select json_array_elements_text(:rows::json))) and carries & 4 <> 0
returning 1;

-- name: remove_keys
delete from homing_keys
where hash = any(array(
    select hash from homing_keys
    where expires_at_ms < :before_ms::bigint
    order by expires_at_ms, source, key
    limit :limit::bigint
    for update skip locked
))
returning 1;

-- name: remove_facts
delete from homing_facts
where ctid = any(array(
    select ctid from homing_facts
    where at_ms < :before_ms::bigint and (:kind::text is null or kind = :kind::text)
    order by at_ms, kind, key
    limit :limit::bigint
    for update skip locked
))
returning 1;

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

-- Not from `homing_counts`: what a commit changes there is written at its end.
-- name: routes
select distinct route from homing_deliveries where ended_at_ms is not null
union
select distinct route from homing_attempts where ended_at_ms is not null;

-- The oldest of all ranges of the index: each is read in order, and no further than the limit.
-- Children are kept as long as their parent's record.
-- name: old_deliveries
select d.seq, d.carries, d.done_by, d.done_since_ms, r.record, :fresh:
from json_each(:routes) as w
cross join json_each(:states) as s
cross join json_each(:carrying) as v
cross join json_each((
    select json_group_array(picked.seq)
    from (
        select b.seq
        from homing_deliveries as b
        where
            b.route = w.value and b.state = s.value and b.carries = v.value
            and b.ended_at_ms < :before_ms
            and not (
                :keeps_family
                and exists (select 1 from homing_deliveries as p where p.id = b.parent_id)
            )
        order by b.ended_at_ms, b.id
        limit :limit
    ) as picked
)) as picked
cross join homing_deliveries as d on d.seq = picked.value
:records:
order by d.ended_at_ms, d.id
limit :limit;

-- What a removed delivery has beside its key and its attempts.
-- name: remove
delete from homing_deliveries where seq in (select value from json_each(:rows));
delete from homing_records where seq in (select value from json_each(:rows));
delete from homing_contents where seq in (select value from json_each(:rows));
delete from homing_results where seq in (select value from json_each(:rows));

-- name: remove_recipient
delete from homing_recipients where address = ? and seq = ?;

-- name: remove_deliveries
insert into homing_attempts (delivery_id, number, route, ended_at_ms, record)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
from json_each(:attempts)
where true
on conflict (delivery_id, number) do update set record = excluded.record;
delete from homing_recipients
where (address, seq) in (select value ->> 0, value ->> 1 from json_each(:recipients));
insert into homing_counts (route, queue, state, error_class, failed_because, number)
select
    d.route, d.queue, d.state,
    iif(d.state = 'failed', coalesce(d.error_class, ''), ''),
    iif(d.state = 'failed', coalesce(d.failed_because, ''), ''),
    -1
from homing_deliveries as d
where d.seq in (select value from json_each(:rows))
on conflict (route, queue, state, error_class, failed_because)
do update set number = number + excluded.number;
:remove:;

-- name: empty
update homing_deliveries set carries = carries & 4
where seq in (select value from json_each(:rows));
delete from homing_contents where seq in (select value from json_each(:rows));
delete from homing_results where seq in (select value from json_each(:rows));

-- Those of a delivery that has not ended stay: they say whether it may have been sent.
-- name: old_attempts
select
    picked.value ->> 0 as ended_at_ms,
    picked.value ->> 1 as delivery_id,
    picked.value ->> 2 as number
from json_each(:routes) as w
cross join json_each((
    select json_group_array(json_array(picked.ended_at_ms, picked.delivery_id, picked.number))
    from (
        select a.ended_at_ms, a.delivery_id, a.number
        from homing_attempts as a
        left join homing_deliveries as d on d.id = a.delivery_id
        where
            a.route = w.value and a.ended_at_ms < :before_ms
            and (d.state is null or d.state not in ('pending', 'in_flight', 'waiting'))
        order by a.ended_at_ms, a.delivery_id, a.number
        limit :limit
    ) as picked
)) as picked
order by ended_at_ms, delivery_id, number
limit :limit;

-- name: remove_attempts
delete from homing_attempts
where (delivery_id, number) in (select value ->> 0, value ->> 1 from json_each(:attempts))
returning 1;

-- name: remove_implied_attempts
update homing_deliveries
set carries = carries & 3, done_by = null, done_since_ms = null
where seq in (select value from json_each(:rows))
returning 1;

-- name: remove_keys
delete from homing_keys
where (source, key) in (
    select source, key from homing_keys
    where expires_at_ms < :before_ms
    order by expires_at_ms, source, key
    limit :limit
)
returning 1;

-- name: remove_facts
delete from homing_facts
where (kind, key) in (
    select kind, key from homing_facts
    where at_ms < :before_ms and (:kind is null or kind = :kind)
    order by at_ms, kind, key
    limit :limit
)
returning 1;

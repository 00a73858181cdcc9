-- Those due first of one lane; `pick` puts one of these for every lane.
-- name: due
select d.due_at_ms, d.id, d.seq
from homing_deliveries as d indexed by homing_deliveries_due
where
    d.lane = ? and d.priority = ? and d.due_at_ms <= ?
    and d.state in ('pending', 'in_flight', 'waiting')
    and (
        d.state <> 'in_flight'
        or d.holder is null
        or d.holder not in (select value from json_each(?))
    )

-- The lanes are read side by side and no further than the limit; `picked` is no longer than that.
-- name: pick
select json_group_array(json_array(due_at_ms, id, seq))
from (select * from (:lanes:) as merged order by due_at_ms, id limit ?) as picked;

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

-- All of it in one row: between rows Python lets go of its interpreter, and getting it back from
-- a busy event loop takes longer than reading them all. Payloads stand one after the other; the
-- few that are longer than the limit are left to `long_payloads`.
-- name: taken
select
    json_group_array(
        json_array(
            d.seq,
            d.version,
            d.claims,
            d.open_children,
            d.marked_at_ms,
            d.carries,
            coalesce(length(c.payload), 0)
        )
    ),
    cast('[' || group_concat(d.record) || ']' as blob),
    cast(
        group_concat(iif(length(c.payload) <= ?2, cast(c.payload as text), ''), '') as blob
    )
from json_each(?1) as w
cross join homing_deliveries as d on d.seq = w.value
left join homing_contents as c on c.seq = d.seq;

-- name: long_payloads
select c.seq, c.payload
from json_each(?1) as w
cross join homing_contents as c on c.seq = w.value
where length(c.payload) > ?2;

-- name: results
select r.seq, r.name, r.data
from json_each(?) as w
cross join homing_results as r on r.seq = w.value;

-- name: renew
update homing_deliveries
set due_at_ms = ?
where id = ? and version = ? and holder = ? and state = 'in_flight';

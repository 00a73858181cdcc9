-- Those due first of one queue and priority; `pick` has one of these for each.
-- name: ready
select d.priority, d.due_at_ms, d.id, d.seq
from homing_deliveries as d indexed by homing_deliveries_ready
where
    d.queue = ? and d.priority = ? and d.due_at_ms <= ?
    and d.state in ('pending', 'waiting') and d.due_at_ms is not null

-- They are read side by side and no further than the limit; `picked` is no longer than that.
-- name: pick
select
    json_group_array(
        json_array(
            priority,
            due_at_ms,
            id,
            seq,
            coalesce((select length(c.payload) from homing_contents as c where c.seq = picked.seq), 0)
        )
    )
from (select * from (:places:) as merged order by priority, due_at_ms, id limit ?) as picked;

-- Leases that have ended, but for those of holders known to be alive.
-- name: expired
select d.priority, d.due_at_ms, d.id, d.seq, coalesce(length(c.payload), 0)
from json_each(?) as w
cross join homing_deliveries as d indexed by homing_deliveries_leases
    on d.queue = w.value and d.state = 'in_flight' and d.due_at_ms <= ?
left join homing_contents as c on c.seq = d.seq
where d.holder is null or d.holder not in (select value from json_each(?));

-- name: take
update homing_deliveries
set
    state = 'in_flight',
    holder = ?1,
    due_at_ms = ?2,
    claimed_at_ms = ?3,
    unsettled_claims = unsettled_claims + 1,
    version = version + 1
where seq in (select value from json_each(?4));

-- All of it in one row: between rows Python releases its interpreter lock, and getting it back from
-- a busy event loop takes longer than reading them all. Payloads are joined; `long_payloads` reads
-- the few that are longer than the limit.
-- name: taken
select
    json_group_array(
        json_array(
            d.seq,
            d.version,
            d.unsettled_claims,
            d.open_children,
            d.is_stale,
            d.carries
        )
    ),
    cast('[' || group_concat(r.record) || ']' as blob),
    cast(
        group_concat(iif(length(c.payload) <= ?2, cast(c.payload as text), ''), '') as blob
    )
from json_each(?1) as w
cross join homing_deliveries as d on d.seq = w.value
cross join homing_records as r on r.seq = d.seq
left join homing_contents as c on c.seq = d.seq;

-- name: fresh
select d.seq, :fresh:
from json_each(?) as w
cross join homing_deliveries as d on d.seq = w.value
where d.is_stale = 1;

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

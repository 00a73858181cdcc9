-- What is due of the lanes asked for, by priority, then due time, then id: first what is ready, lane
-- by lane and priority by priority, and no more than the limit of each; then leases that have ended,
-- but for those of holders known to be alive. A row that another transaction has locked is skipped.
-- The caller puts the answer in order: to sort it here would copy all payloads once more.
-- name: ready
ready_:priority: as materialized (
    select x.place, x.priority, x.due_at_ms, x.id, x.payload_bytes
    from unnest(@lanes::text[], @from_:priority:_ms::bigint[]) as l (lane, from_ms)
    cross join lateral (
        select o.ctid as place, o.priority, o.due_at_ms, o.id, o.payload_bytes
        from homing_open as o
        where
            o.lane = l.lane and o.priority = :priority:
            and o.due_at_ms >= l.from_ms and o.due_at_ms <= @now_ms::bigint
            and o.state in ('pending', 'waiting') and o.due_at_ms is not null
        order by o.due_at_ms, o.id
        limit greatest(@limit::bigint - (:taken_before:), 0)
        for update skip locked
    ) as x
    order by x.due_at_ms, x.id
    limit @limit::bigint
)

-- name: claim
with :ready:,
expired as materialized (
    select x.place, x.priority, x.due_at_ms, x.id, x.payload_bytes
    from unnest(@lanes::text[]) as l (lane)
    cross join lateral (
        select o.ctid as place, o.priority, o.due_at_ms, o.id, o.payload_bytes
        from homing_open as o
        where
            o.lane = l.lane and o.state = 'in_flight'
            and o.due_at_ms >= @leases_from_ms::bigint and o.due_at_ms <= @now_ms::bigint
            and (o.holder is null or o.holder <> all(@alive_holders::text[]))
        order by o.priority, o.due_at_ms, o.id
        limit @limit::bigint
        for update skip locked
    ) as x
),
due as materialized (
    :all_ready:
    union all
    select * from expired
    order by priority, due_at_ms, id
    limit @limit::bigint
),
affordable as materialized (
    select d.place, d.priority, d.due_at_ms, d.id
    from (
        select
            due.*,
            row_number() over in_order as nth,
            sum(due.payload_bytes) over in_order as bytes
        from due
        window in_order as (order by due.priority, due.due_at_ms, due.id rows unbounded preceding)
    ) as d
    where d.nth = 1 or @limit_bytes::bigint is null or d.bytes <= @limit_bytes::bigint
),
taken as (
    update homing_open as d
    set
        state = 'in_flight',
        holder = @worker::text,
        due_at_ms = @lease_until_ms::bigint,
        claimed_at_ms = @now_ms::bigint,
        unsettled_claims = d.unsettled_claims + 1,
        version = d.version + 1
    from affordable as a
    where d.ctid = a.place
    returning
        a.priority, a.due_at_ms as was_due_at_ms, d.id, d.parent_id, d.is_stale, d.carries, :fresh_as:
)
select
    t.id, t.is_stale, t.carries, t.priority, t.was_due_at_ms,
    -- Whether there may be facts of this kind about it or its parent (see claimed_facts.py).
    @fact_kind::text is null or exists (
        select from homing_facts as f
        where f.kind = @fact_kind::text and f.key > t.id || '/' and f.key < t.id || '0'
    ) or t.parent_id is not null and exists (
        select from homing_facts as f
        where
            f.kind = @fact_kind::text
            and f.key > t.parent_id || '/' and f.key < t.parent_id || '0'
    ) as has_facts,
    :fresh_of_taken:, r.record, r.payload
from taken as t
cross join lateral (select * from homing_records as r where r.id = t.id) as r;

-- name: results
select r.id, r.name, r.data
from homing_results as r
where r.id = any(@ids::text[]);

-- name: renew
update homing_open as o
set due_at_ms = @lease_until_ms::bigint
from unnest(@ids::text[], @versions::bigint[]) as w (id, version)
where
    o.id = w.id and o.version = w.version and o.holder = @holder::text and o.state = 'in_flight'
returning o.id, o.version;

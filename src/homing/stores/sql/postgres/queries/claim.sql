-- What is due of the queues asked for, by priority, then due time, then id: what is ready, and leases
-- that have ended, but for those of holders known to be alive. A row that another transaction has
-- locked is skipped. The next priority is looked at only while the limit is not reached: the loop over
-- priorities ends with the limit after it. `from_ms` has a start for each queue, priority by priority.
-- The caller puts the answer in order: to sort it here would copy all payloads once more.
-- name: claim
with due as materialized (
    select d.place, d.priority, d.due_at_ms, d.id
    from (
        select
            u.*,
            row_number() over in_order as nth,
            sum(u.payload_bytes) over in_order as bytes
        from (
            (
                select r.*
                from generate_series(1, :priorities:) as p (priority)
                cross join lateral (
                    select x.*
                    from unnest(:queues::text[]) with ordinality as l (queue, nth)
                    cross join lateral (
                        select
                            o.ctid as place, o.priority, o.due_at_ms, o.id,
                            o.payload_bytes::integer as payload_bytes
                        from homing_open as o
                        where
                            o.queue = l.queue and o.priority = p.priority
                            and o.due_at_ms >= (:from_ms::bigint[])[
                                (p.priority - 1) * cardinality(:queues::text[]) + l.nth
                            ]
                            and o.due_at_ms <= :now_ms::bigint
                            and o.state in ('pending', 'waiting') and o.due_at_ms is not null
                        order by o.due_at_ms, o.id
                        limit :limit::bigint
                        for update skip locked
                    ) as x
                    order by x.due_at_ms, x.id
                    limit :limit::bigint
                ) as r
                limit :limit::bigint
            )
            union all
            select x.*
            from unnest(:queues::text[]) as l (queue)
            cross join lateral (
                select
                    o.ctid as place, o.priority, o.due_at_ms, o.id,
                    o.payload_bytes::integer as payload_bytes
                from homing_open as o
                where
                    o.queue = l.queue and o.state = 'in_flight'
                    and o.due_at_ms >= :leases_from_ms::bigint and o.due_at_ms <= :now_ms::bigint
                    and (o.holder is null or o.holder <> all(:alive_holders::text[]))
                order by o.priority, o.due_at_ms, o.id
                limit :limit::bigint
                for update skip locked
            ) as x
        ) as u
        window in_order as (order by u.priority, u.due_at_ms, u.id rows unbounded preceding)
    ) as d
    where
        d.nth <= :limit::bigint
        and (d.nth = 1 or :limit_bytes::bigint is null or d.bytes <= :limit_bytes::bigint)
)
update homing_open as d
set
    state = 'in_flight',
    holder = :worker::text,
    due_at_ms = :lease_until_ms::bigint,
    claimed_at_ms = :now_ms::bigint,
    unsettled_claims = d.unsettled_claims + 1,
    version = d.version + 1
from due as a
cross join lateral (select * from homing_records as r where r.id = a.id) as r
where d.ctid = a.place
returning
    d.id, d.is_stale, d.carries, a.priority, a.due_at_ms,
    -- Whether there may be facts of this kind about it or its parent (see claimed_facts.py). Mostly
    -- there are none at all, which is asked once.
    :fact_kind::text is null or exists (
        select from homing_facts as f where f.kind = :fact_kind::text
    ) and (
        exists (
            select from homing_facts as f
            where f.kind = :fact_kind::text and f.key > d.id || '/' and f.key < d.id || '0'
        ) or d.parent_id is not null and exists (
            select from homing_facts as f
            where
                f.kind = :fact_kind::text
                and f.key > d.parent_id || '/' and f.key < d.parent_id || '0'
        )
    ) as has_facts,
    :fresh_as:, r.record, r.payload;

-- name: results
select r.id, r.name, r.data
from homing_results as r
where r.id = any(:ids::text[]);

-- name: renew
update homing_open as o
set due_at_ms = :lease_until_ms::bigint
from unnest(:ids::text[], :versions::bigint[]) as w (id, version)
where
    o.id = w.id and o.version = w.version and o.holder = :holder::text and o.state = 'in_flight'
returning o.id, o.version;

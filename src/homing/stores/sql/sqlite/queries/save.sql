-- Python binds None slowly, so rows say 0.5 for a value that is not there: `:row:` makes it null.

-- What is stored under these ids, for a save that has to read first.
-- name: stored
select d.seq, d.carries, d.done_by, d.done_since_ms, r.record, :fresh:
from (values (?)) as w
cross join homing_deliveries as d on d.id = w.column1
cross join homing_records as r on r.seq = d.seq;

-- Rows of which only fresh columns change, and to the same values.
-- name: update_fresh
update homing_deliveries
set
    :set_fresh:,
    carries = carries | ?,
    is_stale = ?,
    version = ?,
    done_by = ?,
    done_since_ms = ?
where seq in (select value from json_each(?)) and version = ?;

-- As `update_fresh` for a change that keeps holder and lease, such as a mark: it writes no column
-- of the index of leases. If the lease was renewed meanwhile, no row matches.
-- name: update_under_lease
update homing_deliveries
set
    :set_under_lease:,
    carries = carries | ?,
    is_stale = ?,
    version = ?
where seq in (select value from json_each(?)) and version = ? and due_at_ms is ?;

-- A row whose record was read brings the counter of open children; of others it stays.
-- name: update_deliveries
update homing_deliveries
set
    :set_all:,
    open_children = coalesce(w.counted, homing_deliveries.open_children),
    version = w.next_version,
    carries = (homing_deliveries.carries & 3) | w.carries,
    done_by = w.done_by,
    done_since_ms = w.done_since_ms,
    is_stale = 0
from (
    select :saved_columns:
    from (values (:row:, nullif(?, 0.5), ?, nullif(?, 0.5), nullif(?, 0.5), ?, ?, ?)) as v
) as w
where homing_deliveries.seq = w.seq and homing_deliveries.version = w.over;

-- name: put_attempts
insert into homing_attempts (delivery_id, number, route, ended_at_ms, record)
values (?, ?, ?, ?, ?)
on conflict (delivery_id, number) do update set
    route = excluded.route,
    ended_at_ms = excluded.ended_at_ms,
    record = excluded.record;

-- The parent's version stays: its holder must not lose the claim because a child ended.
-- name: count_child
update homing_deliveries
set
    open_children = max(open_children + ?1, 0),
    due_at_ms = case
        when state <> 'waiting' then due_at_ms
        when open_children + ?1 <= 0 then ?2
    end
where id = ?3;

-- The same for a parent that was read.
-- name: put_counter
update homing_deliveries set open_children = ?, due_at_ms = ? where seq = ?;

-- name: drop_results
delete from homing_results where seq = ?1 and substr(name, 1, length(?2)) <> ?2;

-- name: keep_payload
insert into homing_results (seq, name, data)
select ?1, ?2, coalesce((select payload from homing_contents where seq = ?1), x'')
where true
on conflict (seq, name) do update set data = excluded.data;

-- name: forget_attempts
delete from homing_attempts where delivery_id = ?;

-- name: put_terms
update homing_keys
set expires_at_ms = w.column1
from (values (nullif(?, 0.5), ?, ?, ?)) as w
where
    homing_keys.source = w.column2
    and homing_keys.key = w.column3
    and homing_keys.delivery_id = w.column4;

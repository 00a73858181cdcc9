-- What is stored under these ids, for a save that has to read first.
-- name: stored
select w.column1, d.seq, d.carries, d.done_by, d.done_since_ms, r.record, :fresh:
from (values (?, ?)) as w
cross join homing_deliveries as d on d.id = w.column2
cross join homing_records as r on r.seq = d.seq;

-- Rows of which only fresh columns change, and to the same values.
-- name: update_fresh
update homing_deliveries
set
    :set_fresh:,
    carries = carries | ?,
    is_stale = ?,
    version = version + 1,
    done_by = ?,
    done_since_ms = ?
where seq in (select value from json_each(?)) and version = ?;

-- As `update_fresh` for a change that keeps holder and lease, such as a mark: it writes no column
-- of the index of leases. If the lease was renewed meanwhile, no row matches.
-- name: update_in_hand
update homing_deliveries
set
    :set_in_hand:,
    carries = carries | ?,
    is_stale = ?,
    version = version + 1
where seq in (select value from json_each(?)) and version = ? and due_at_ms is ?;

-- Open children are counted here alone; a waiting delivery is due exactly while there are none.
-- name: update_deliveries
update homing_deliveries
set
    :set_all:,
    due_at_ms = case
        when w.due_at_zero_ms is null then w.due_at_ms
        when homing_deliveries.open_children = 0 then w.due_at_zero_ms
    end,
    version = w.version + 1,
    carries = (homing_deliveries.carries & 3) | w.carries,
    done_by = w.done_by,
    done_since_ms = w.done_since_ms,
    is_stale = 0
from (
    select :saved_columns:
    from (values (:row:, nullif(?, 0.5), ?, nullif(?, 0.5), nullif(?, 0.5), ?)) as v
) as w
where homing_deliveries.seq = w.seq and homing_deliveries.version = w.version;

-- name: put_attempts
insert into homing_attempts (delivery_id, number, route, ended_at_ms, record)
values (?, ?, ?, nullif(?, 0.5), ?)
on conflict (delivery_id, number) do update set
    route = excluded.route,
    ended_at_ms = excluded.ended_at_ms,
    record = excluded.record;

-- The parent's version stays: its holder must not lose the claim because a child ended.
-- name: tell_parent
update homing_deliveries
set
    open_children = max(open_children + ?1, 0),
    due_at_ms = case
        when state <> 'waiting' then due_at_ms
        when open_children + ?1 <= 0 then ?2
    end
where id = ?3;

-- name: count_children
update homing_deliveries set open_children = open_children + ? where seq = ?;

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

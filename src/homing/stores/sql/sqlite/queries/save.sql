-- Rows come back only for what is out of the ordinary: the claim was lost, the lease was cut
-- short (the fourth value is null unless it is leased), or other recipients are named.
-- name: changed_since_read
select
    w.column1,
    d.version is not w.column3,
    w.column4 < d.due_at_ms,
    d.envelope is not w.column5
from (values (?, ?, ?, nullif(?, ''), nullif(?, ''))) as w
left join homing_deliveries as d on d.id = w.column2
where
    d.version is not w.column3
    or w.column4 < d.due_at_ms
    or d.envelope is not w.column5;

-- The row is known to be there: the conflict is the rule. Who it is and where it came from
-- (id, creation, parent, original) never changes. Its open children are counted here alone.
-- name: put_deliveries
insert into homing_deliveries (
    id, route, lane, priority, state, stage, phase, failed_because, error_class, source, key,
    topic, parent_id, clone_of, holder, owing, attempted, required, created_at_ms,
    updated_at_ms, due_at_ms, ended_at_ms, version, claims, claimed_at_ms, open_children, carries,
    envelope, record
)
values (
    ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), nullif(?, 0), ?, nullif(?, 0),
    nullif(?, 0), nullif(?, 0), nullif(?, 0), nullif(?, 0), ?, ?, ?, ?,
    ?, nullif(?, ''), nullif(?, ''), ?, ?, nullif(?, ''), ?, ?,
    nullif(?, ''), ?
)
on conflict (id) do update set
    route = excluded.route,
    lane = excluded.lane,
    priority = excluded.priority,
    state = excluded.state,
    stage = excluded.stage,
    phase = excluded.phase,
    failed_because = excluded.failed_because,
    error_class = excluded.error_class,
    source = excluded.source,
    key = excluded.key,
    topic = excluded.topic,
    holder = excluded.holder,
    owing = excluded.owing,
    attempted = excluded.attempted,
    required = excluded.required,
    updated_at_ms = excluded.updated_at_ms,
    due_at_ms = case
        when excluded.state <> 'waiting' then excluded.due_at_ms
        when open_children = 0 then excluded.updated_at_ms
    end,
    ended_at_ms = excluded.ended_at_ms,
    version = excluded.version + 1,
    claims = excluded.claims,
    claimed_at_ms = excluded.claimed_at_ms,
    carries = carries | excluded.carries,
    envelope = excluded.envelope,
    marked_at_ms = null,
    record = excluded.record;

-- No column of an index that holds what is in flight: the mark costs its row and no more.
-- name: mark
update homing_deliveries
set
    version = version + 1,
    updated_at_ms = w.column3,
    marked_at_ms = w.column3,
    carries = carries | w.column4
from (values (?, ?, ?, ?)) as w
where homing_deliveries.id = w.column1 and homing_deliveries.version = w.column2
returning homing_deliveries.id;

-- name: put_attempts
insert into homing_attempts (delivery_id, number, route, ended_at_ms, record)
values (?, ?, ?, nullif(?, ''), ?)
on conflict (delivery_id, number) do update set
    route = excluded.route,
    ended_at_ms = excluded.ended_at_ms,
    record = excluded.record;

-- name: put_results
insert into homing_results (seq, name, data)
select d.seq, w.column2, w.column3
from (values (?, ?, ?)) as w
cross join homing_deliveries as d on d.id = w.column1
where true
on conflict (seq, name) do update set data = excluded.data;

-- The parent's version stays: a child that ends must not cost its parent's holder the claim.
-- name: tell_parent
update homing_deliveries
set
    open_children = max(open_children + ?1, 0),
    due_at_ms = case
        when state <> 'waiting' then due_at_ms
        when open_children + ?1 <= 0 then ?2
    end
where id = ?3;

-- name: stored
select seq, coalesce(record ->> '$.payload_no', 1), record from homing_deliveries where id = ?;

-- name: count_children
update homing_deliveries set open_children = open_children + ? where seq = ?;

-- name: drop_results
delete from homing_results where seq = ? and substr(name, 1, 8) <> 'payload.';

-- name: keep_payload
insert into homing_results (seq, name, data)
select ?1, ?2, coalesce((select payload from homing_contents where seq = ?1), x'')
where true
on conflict (seq, name) do update set data = excluded.data;

-- name: put_payload
insert into homing_contents (seq, payload)
values (?, ?)
on conflict (seq) do update set payload = excluded.payload;

-- name: forget_attempts
delete from homing_attempts where delivery_id = ?;

-- name: put_term
update homing_keys set expires_at_ms = nullif(?, '')
where source = ? and key = ? and delivery_id = ?;

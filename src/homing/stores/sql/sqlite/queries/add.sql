-- Python binds None slowly, so rows say 0 for a text and '' for a number that is not there.

-- What is read here may be read on a caller's connection, whose text factory and column
-- converters are not ours: so text comes as blobs, and every column is an expression.

-- name: taken_ids
select max(seq), null from homing_deliveries
union all
select null, cast(d.id as blob)
from (values (?)) as w
cross join homing_deliveries as d on d.id = w.column1;

-- name: taken_keys
select
    cast(k.source as blob),
    cast(k.key as blob),
    cast(k.delivery_id as blob),
    cast(k.fingerprint as blob),
    +k.expires_at_ms
from (values (?, ?)) as w
cross join homing_keys as k on k.source = w.column1 and k.key = w.column2;

-- name: insert_deliveries
insert into homing_deliveries (
    id, route, lane, priority, state, stage, phase, failed_because, error_class, source, key,
    topic, parent_id, clone_of, holder, owing, attempted, required, created_at_ms,
    updated_at_ms, due_at_ms, ended_at_ms, version, claims, claimed_at_ms, open_children, carries,
    envelope, record, seq
)
values (
    ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), nullif(?, 0), ?, nullif(?, 0),
    nullif(?, 0), nullif(?, 0), nullif(?, 0), nullif(?, 0), ?, ?, ?, ?,
    ?, nullif(?, ''), nullif(?, ''), ?, ?, nullif(?, ''), ?, ?,
    nullif(?, ''), ?, ?
);

-- name: insert_contents
insert into homing_contents (seq, payload)
values (?, ?);

-- name: insert_recipients
insert or ignore into homing_recipients (address, seq)
values (?, ?);

-- Only an expired key is ever written over.
-- name: put_keys
insert into homing_keys (source, key, delivery_id, fingerprint, expires_at_ms)
values (?, ?, ?, ?, nullif(?, ''))
on conflict (source, key) do update set
    delivery_id = excluded.delivery_id,
    fingerprint = excluded.fingerprint,
    expires_at_ms = excluded.expires_at_ms;

-- name: put_facts
insert into homing_facts (kind, key, at_ms, value)
values (?, ?, ?, ?)
on conflict (kind, key) do update set
    at_ms = excluded.at_ms,
    value = excluded.value;

-- name: drop_fact
delete from homing_facts where kind = ? and key = ?;

-- What is read here may be read on a caller's connection, whose text factory and column
-- converters are not ours: so text comes as blobs, and every column is an expression.

-- name: newest
select max(s.seq) from sqlite_sequence as s where s.name = 'homing_deliveries';

-- name: taken_ids
select cast(d.id as blob)
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

-- The end of an insert of keys that were looked up: only an expired one is ever replaced.
-- name: replace_keys
on conflict (source, key) do update set
    delivery_id = excluded.delivery_id,
    fingerprint = excluded.fingerprint,
    expires_at_ms = excluded.expires_at_ms;

-- name: put_records
insert into homing_records (seq, record)
values (?, ?)
on conflict (seq) do update set record = excluded.record;

-- name: put_payloads
insert into homing_contents (seq, payload)
values (?, ?)
on conflict (seq) do update set payload = excluded.payload;

-- name: put_results
insert into homing_results (seq, name, data)
values (?, ?, ?)
on conflict (seq, name) do update set data = excluded.data;

-- name: put_recipients
insert or ignore into homing_recipients (address, seq)
values (?, ?);

-- name: put_facts
insert into homing_facts (kind, key, at_ms, value)
values (?, ?, ?, ?)
on conflict (kind, key) do update set
    at_ms = excluded.at_ms,
    value = excluded.value;

-- name: drop_fact
delete from homing_facts where kind = ? and key = ?;

-- name: put_counts
insert into homing_counts (route, queue, state, error_class, failed_because, number)
values (?, ?, ?, ?, ?, ?)
on conflict (route, queue, state, error_class, failed_because)
do update set number = number + excluded.number;

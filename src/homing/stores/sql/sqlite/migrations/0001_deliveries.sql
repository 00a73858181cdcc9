-- old workers: must stop
-- Names carry a prefix because the tables may live in an application's own database.

-- What a claim, a filter or a count needs, in narrow rows: these are written again and again. The
-- record stands apart. Where both say something, the column is right (see stores/sql/columns.py).
-- A number in `seq` is never given twice: a save may name its row by it.
create table homing_deliveries (
    seq integer primary key autoincrement,
    id text not null unique,
    created_at_ms integer not null,
    route text not null,
    queue text not null,
    priority integer not null check (priority between 1 and 4),
    stage text not null,
    phase text not null,
    source text not null,
    state text not null,
    version integer not null,
    unsettled_claims integer not null,
    updated_at_ms integer not null,
    attempts_ended integer not null,
    attempts_spent integer not null,
    parent_id text,
    clone_of text,
    key text,
    topic text,
    failed_because text,
    holder text,
    due_at_ms integer,
    claimed_at_ms integer,
    ended_at_ms integer,
    committed_at_ms integer,
    error_class text,
    has_notices_due integer not null,
    required integer not null,
    committing integer not null,
    accepted_at_ms integer, -- of a receipt that says no more than this
    open_children integer not null,
    carries integer not null, -- bits: 1 a payload, 2 results of stages, 4 the attempt that delivered
    done_by text, -- with bit 4: who made that attempt,
    done_since_ms integer, -- and since when
    is_stale integer not null -- 1: a save has changed columns and left the record as it was
) strict;

-- A claim reads its front alone; the id is the last word between equals.
create index homing_deliveries_ready
on homing_deliveries (queue, priority, due_at_ms, id)
where state in ('pending', 'waiting') and due_at_ms is not null;

-- Only what is in flight: few, however many are stored.
create index homing_deliveries_leases
on homing_deliveries (queue, due_at_ms, holder) where state = 'in_flight';

create index homing_deliveries_created
on homing_deliveries (created_at_ms, id);

-- With what dead letters are filtered by, so that they are counted and chosen without their rows.
create index homing_deliveries_failed
on homing_deliveries (created_at_ms, id, parent_id, failed_because, error_class, route)
where state = 'failed';

-- Dead letters in groups: how many there are, since when, and the first and last of each.
create index homing_deliveries_errors
on homing_deliveries (route, error_class, failed_because, created_at_ms, id, updated_at_ms)
where state = 'failed';

create index homing_deliveries_notices_due
on homing_deliveries (created_at_ms, id) where has_notices_due = 1;

-- What has come to owe a notice lately.
create index homing_deliveries_notices_due_since
on homing_deliveries (updated_at_ms) where has_notices_due = 1;

create index homing_deliveries_waiting
on homing_deliveries (route, queue, state) where state = 'waiting';

create index homing_deliveries_parent
on homing_deliveries (parent_id, created_at_ms, id) where parent_id is not null;

create index homing_deliveries_clone
on homing_deliveries (clone_of, created_at_ms, id) where clone_of is not null;

-- Retention: `carries` keeps emptied ones out of the way of the next look.
create index homing_deliveries_ended
on homing_deliveries (route, state, carries, ended_at_ms) where ended_at_ms is not null;

-- How many there are, so that a count reads a few rows and not all of them; each commit writes by
-- how many they have changed (see counts.py). `open` stands for pending, in flight and waiting
-- together: a claim then changes nothing here. Few are in flight, and those and the waiting ones are
-- counted when they are asked for (see queries/read.sql).
create table homing_counts (
    route text not null,
    queue text not null,
    state text not null,
    number integer not null,
    primary key (route, queue, state)
) strict, without rowid;

create table homing_records (
    seq integer primary key,
    record text not null
) strict;

create table homing_contents (
    seq integer primary key,
    payload blob not null
) strict;

create table homing_results (
    seq integer not null,
    name text not null,
    data blob not null,
    primary key (seq, name)
) strict;

create table homing_recipients (
    address text not null,
    seq integer not null,
    primary key (address, seq)
) strict, without rowid;

create table homing_keys (
    source text not null,
    key text not null,
    delivery_id text not null,
    fingerprint text not null,
    expires_at_ms integer,
    primary key (source, key)
) strict, without rowid;

create index homing_keys_expiry
on homing_keys (expires_at_ms) where expires_at_ms is not null;

-- Ended attempts, but for the one that a delivered row implies (bit 4 of `carries`). The route
-- stands here too, because an attempt may outlive its delivery.
create table homing_attempts (
    delivery_id text not null,
    number integer not null,
    route text not null,
    ended_at_ms integer,
    record text not null,
    primary key (delivery_id, number)
) strict, without rowid;

create index homing_attempts_ended
on homing_attempts (route, ended_at_ms) where ended_at_ms is not null;

create table homing_facts (
    kind text not null,
    key text not null,
    at_ms integer not null,
    value text not null,
    primary key (kind, key)
) strict, without rowid;

create index homing_facts_at
on homing_facts (at_ms);

-- In time order, kind by kind.
create index homing_facts_of_kind_at
on homing_facts (kind, at_ms, key);

-- One row. `beat` rises with the commits, so that an older copy of the file can be told from the
-- newest one (see high_water.py); a commit that only raises it may move the log (see checkpoint.py).
create table homing_pulse (
    database text not null, -- differs between any two databases
    beat integer not null
) strict;

insert into homing_pulse (database, beat) values (lower(hex(randomblob(16))), 0);

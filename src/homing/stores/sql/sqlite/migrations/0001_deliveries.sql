-- Names carry a prefix because the tables may live in an application's own database.

-- The columns that a claim, a filter or a count needs stand beside the record. Where both say
-- something, the column is right: a claim does not rewrite the record.
create table homing_deliveries (
    seq integer primary key,
    id text not null unique,
    route text not null,
    lane text not null,
    priority integer not null check (priority between 1 and 4),
    state text not null,
    stage text not null,
    phase text not null,
    failed_because text,
    error_class text,
    source text not null,
    key text,
    topic text,
    parent_id text,
    clone_of text,
    holder text,
    owing integer not null,
    attempted integer not null,
    required integer not null,
    created_at_ms integer not null,
    updated_at_ms integer not null,
    due_at_ms integer,
    ended_at_ms integer,
    version integer not null,
    claims integer not null,
    claimed_at_ms integer,
    open_children integer not null,
    carries integer not null, -- 1: a payload, 2: results of stages, 3: both
    envelope integer, -- a digest of the recipients' addresses
    record text not null
) strict;

-- A claim reads its front alone; the id is the last word between equals.
create index homing_deliveries_due
on homing_deliveries (lane, priority, due_at_ms, id) where due_at_ms is not null;

create index homing_deliveries_created
on homing_deliveries (created_at_ms, id);

create index homing_deliveries_failed
on homing_deliveries (created_at_ms, id) where state = 'failed';

create index homing_deliveries_owing
on homing_deliveries (created_at_ms, id) where owing = 1;

create index homing_deliveries_parent
on homing_deliveries (parent_id, created_at_ms, id) where parent_id is not null;

create index homing_deliveries_clone
on homing_deliveries (clone_of, created_at_ms, id) where clone_of is not null;

-- Retention: `carries` keeps emptied ones out of the way of the next look for payloads.
create index homing_deliveries_ended
on homing_deliveries (route, state, carries, ended_at_ms) where ended_at_ms is not null;

create index homing_deliveries_holder
on homing_deliveries (holder) where holder is not null;

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

-- The route stands here too, because an attempt may outlive its delivery.
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

-- One row, written only so that a commit exists which may then move the log (see checkpoint.py).
create table homing_pulse (
    beat integer not null
) strict;

insert into homing_pulse (beat) values (0);

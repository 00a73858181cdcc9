-- The outbox as its document describes it, unless there is one. Homing writes a row in the same
-- transaction as its own record (record.py): from the failure of the inline call until the mail is sent
-- or dismissed. Triggers mark what is written; the service adopts what others wrote.
create table if not exists email_outbox (
    id text primary key,
    to_address text not null,
    to_name text not null,
    subject text not null,
    body text not null,
    bcc text,
    ics_content text,
    ics_method text,
    status text not null default 'pending',
    attempts integer not null default 0,
    max_attempts integer not null default 5,
    next_retry_at text not null,
    last_error text,
    created_at text not null
);

create index if not exists idx_email_outbox_pending
on email_outbox (next_retry_at) where status = 'pending';

-- The value differs each time: a row that changes while it is adopted stays marked.
create trigger email_outbox_inserted after insert on email_outbox
begin
insert or replace into homing_facts (kind, key, at_ms, value)
values (
    'foreign_row', 'email_outbox/' || new.id,
    cast((julianday('now') - 2440587.5) * 86400000 as integer),
    '{"change":"' || hex(randomblob(8)) || '"}'
);
end;

create trigger email_outbox_updated after update on email_outbox
begin
insert or replace into homing_facts (kind, key, at_ms, value)
values (
    'foreign_row', 'email_outbox/' || new.id,
    cast((julianday('now') - 2440587.5) * 86400000 as integer),
    '{"change":"' || hex(randomblob(8)) || '"}'
);
end;

create trigger email_outbox_deleted after delete on email_outbox
begin
insert or replace into homing_facts (kind, key, at_ms, value)
values (
    'foreign_row', 'email_outbox/' || old.id,
    cast((julianday('now') - 2440587.5) * 86400000 as integer),
    '{"change":"' || hex(randomblob(8)) || '"}'
);
end;

-- What was there before is adopted, too.
insert or replace into homing_facts (kind, key, at_ms, value)
select
    'foreign_row', 'email_outbox/' || e.id,
    cast((julianday('now') - 2440587.5) * 86400000 as integer),
    '{"change":"' || hex(randomblob(8)) || '"}'
from email_outbox as e
where not exists (select 1 from homing_deliveries as d where d.id = e.id);

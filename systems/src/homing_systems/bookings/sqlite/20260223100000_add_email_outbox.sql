-- The outbox as its document describes it, unless there is one. Homing writes a row in the same
-- transaction as its own record. Triggers mark what is written; what others wrote is adopted.
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

create index if not exists idx_email_outbox_pending on email_outbox (next_retry_at) where status = 'pending';

-- The value differs each time: a row that changes while it is adopted stays marked.
create view email_outbox_mark as
select strftime('%s', 'now') * 1000 as at_ms, '{"change":"' || hex(randomblob(8)) || '"}' as value;

create trigger email_outbox_inserted after insert on email_outbox begin
insert or replace into homing_facts (kind, key, at_ms, value)
select 'foreign_row', 'email_outbox/' || new.id, at_ms, value from email_outbox_mark;
end;
create trigger email_outbox_updated after update on email_outbox begin
insert or replace into homing_facts (kind, key, at_ms, value)
select 'foreign_row', 'email_outbox/' || new.id, at_ms, value from email_outbox_mark;
end;
create trigger email_outbox_deleted after delete on email_outbox begin
insert or replace into homing_facts (kind, key, at_ms, value)
select 'foreign_row', 'email_outbox/' || old.id, at_ms, value from email_outbox_mark;
end;

-- What was there before is adopted, too.
insert or replace into homing_facts (kind, key, at_ms, value)
select 'foreign_row', 'email_outbox/' || e.id, m.at_ms, m.value
from email_outbox as e, email_outbox_mark as m where not exists (select 1 from homing_deliveries as d where d.id = e.id);

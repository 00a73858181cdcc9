-- The outbox as its document describes it, over the tables of Homing. A mail is seen from the
-- failure of its inline call until it is sent or dismissed. A test compares every row with the
-- RecordLayout (record.py). Where a column of homing_deliveries and the record differ, the column is right.
create view email_outbox as
with shown as (
    select
        d.*,
        r.record,
        c.email,
        json_extract(r.record, '$.recipients[0].address') as address,
        json_extract(c.email, '$.to[0]') as person
    from homing_deliveries as d
    join homing_records as r on r.seq = d.seq
    join (select seq, cast(payload as text) as email from homing_contents) as c on c.seq = d.seq
    where
        d.route = 'bookings'
        and (d.state in ('pending', 'failed') or (d.state = 'in_flight' and d.phase <> 'inline'))
)
select
    id,
    address as to_address,
    -- What stands before ` <address>`; in quotes it is written as JSON writes a text.
    case
        when person = address then ''
        when person like '"%'
            then json_extract(substr(person, 1, length(person) - length(address) - 3), '$')
        else substr(person, 1, length(person) - length(address) - 3)
    end as to_name,
    coalesce(json_extract(email, '$.subject'), '') as subject,
    coalesce(json_extract(email, '$.text'), '') as body,
    (select group_concat(value, ', ') from json_each(email, '$.bcc')) as bcc,
    json_extract(email, '$.invitation.ics') as ics_content,
    json_extract(email, '$.invitation.method') as ics_method,
    case state when 'failed' then 'failed' else 'pending' end as status,
    attempts_spent as attempts,
    coalesce(json_extract(record, '$.max_attempts'), 5) as max_attempts,
    strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(
        case when state = 'pending' then due_at_ms end,
        claimed_at_ms,
        (
            select json_extract(a.record, '$.started_at_ms') from homing_attempts as a
            where a.delivery_id = shown.id order by a.number desc limit 1
        ),
        ended_at_ms,
        created_at_ms
    ) / 1000.0, 'unixepoch') as next_retry_at,
    coalesce(
        nullif(json_extract(record, '$.failure.detail'), ''),
        json_extract(record, '$.failure.error_class')
    ) as last_error,
    strftime('%Y-%m-%dT%H:%M:%fZ', created_at_ms / 1000.0, 'unixepoch') as created_at
from shown;

create index idx_email_outbox_pending
on homing_deliveries (due_at_ms) where route = 'bookings' and state = 'pending';

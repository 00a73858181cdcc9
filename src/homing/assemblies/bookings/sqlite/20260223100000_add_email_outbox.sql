-- The outbox as its document describes it, over the tables of Homing. A mail is seen from the
-- failure of its inline call until it is sent or dismissed. A test compares every row with the
-- Shape (record.py). Where a column of homing_deliveries and the record differ, the column is right.
create view email_outbox as
with shown as (
    select
        d.*,
        r.record,
        cast(c.payload as text) as email,
        json_extract(r.record, '$.recipients[0].address') as address,
        coalesce(
            case when d.state = 'pending' then d.due_at_ms end,
            d.claimed_at_ms,
            (
                select json_extract(a.record, '$.started_at_ms')
                from homing_attempts as a
                where a.delivery_id = d.id
                order by a.number desc
                limit 1
            ),
            d.ended_at_ms,
            d.created_at_ms
        ) as next_retry_at_ms
    from homing_deliveries as d
    join homing_records as r on r.seq = d.seq
    join homing_contents as c on c.seq = d.seq
    where
        d.route = 'bookings'
        and (d.state in ('pending', 'failed') or (d.state = 'in_flight' and d.phase <> 'inline'))
),
named as (
    -- `Ann <ann@example.org>`: what stands before the address, without ` <` and `>`.
    select
        *,
        case
            when json_extract(email, '$.to[0]') = address then ''
            else substr(
                json_extract(email, '$.to[0]'),
                1,
                length(json_extract(email, '$.to[0]')) - length(address) - 3
            )
        end as name
    from shown
)
select
    id,
    address as to_address,
    case
        when name like '"%'
            then replace(replace(substr(name, 2, length(name) - 2), '\"', '"'), '\\', '\')
        else name
    end as to_name,
    coalesce(json_extract(email, '$.subject'), '') as subject,
    coalesce(json_extract(email, '$.text'), '') as body,
    (select group_concat(value, ', ') from json_each(email, '$.bcc')) as bcc,
    json_extract(email, '$.invitation.ics') as ics_content,
    json_extract(email, '$.invitation.method') as ics_method,
    case state when 'failed' then 'failed' else 'pending' end as status,
    attempts_spent as attempts,
    coalesce(json_extract(record, '$.max_attempts'), 5) as max_attempts,
    strftime('%Y-%m-%dT%H:%M:%S', next_retry_at_ms / 1000, 'unixepoch')
    || printf('.%03dZ', next_retry_at_ms % 1000) as next_retry_at,
    coalesce(
        nullif(json_extract(record, '$.failure.detail'), ''),
        json_extract(record, '$.failure.error_class')
    ) as last_error,
    strftime('%Y-%m-%dT%H:%M:%S', created_at_ms / 1000, 'unixepoch')
    || printf('.%03dZ', created_at_ms % 1000) as created_at
from named;

create index idx_email_outbox_pending
on homing_deliveries (due_at_ms) where route = 'bookings' and state = 'pending';

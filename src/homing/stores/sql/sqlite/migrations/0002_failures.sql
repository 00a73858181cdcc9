-- old workers: must stop
-- Dead letters are counted by error class and reason, so that their groups are read from a few rows
-- however many there are. Only what fails, or is no longer failed, has such a row.
create table homing_counts_by_kind (
    route text not null,
    queue text not null,
    state text not null,
    error_class text not null, -- empty but for dead letters
    failed_because text not null,
    number integer not null,
    primary key (route, queue, state, error_class, failed_because)
) strict, without rowid;

insert into homing_counts_by_kind (route, queue, state, error_class, failed_because, number)
select c.route, c.queue, c.state, '', '', c.number from homing_counts as c where c.state <> 'failed';

insert into homing_counts_by_kind (route, queue, state, error_class, failed_because, number)
select d.route, d.queue, 'failed', coalesce(d.error_class, ''), coalesce(d.failed_because, ''), count(*)
from homing_deliveries as d
where d.state = 'failed'
group by d.route, d.queue, coalesce(d.error_class, ''), coalesce(d.failed_because, '');

drop table homing_counts;

alter table homing_counts_by_kind rename to homing_counts;

-- The first and the last of a group of dead letters.
drop index homing_deliveries_errors;

create index homing_deliveries_errors
on homing_deliveries (route, error_class, failed_because, created_at_ms, id)
where state = 'failed';

-- What has failed lately, by group.
create index homing_deliveries_failed_since
on homing_deliveries (updated_at_ms, route, error_class, failed_because)
where state = 'failed';

-- old workers: must stop
-- Dead letters are counted by error class and reason too, so that their groups are read from a few
-- rows however many there are.
-- What has failed lately, by group; and the first and the last of a group.
create index homing_ended_failed_since
on homing_ended (updated_at_ms, route, error_class, failed_because)
where state = 'failed';

drop index homing_ended_failed_groups;

create index homing_ended_failed_groups
on homing_ended (route, error_class, failed_because, created_at_ms, id)
where state = 'failed';

-- Empty but for dead letters.
alter table homing_counts
add column error_class text collate "C" not null default '',
add column failed_because text collate "C" not null default '';

select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

create or replace function homing_count_ended() returns trigger
language plpgsql security definer set search_path from current as $$
begin
    if tg_op <> 'INSERT' then
        insert into homing_counts (route, queue, state, error_class, failed_because, number)
        select
            o.route, o.queue, o.state,
            case when o.state = 'failed' then coalesce(o.error_class, '') else '' end,
            case when o.state = 'failed' then coalesce(o.failed_because, '') else '' end,
            -count(*)
        from gone as o
        group by 1, 2, 3, 4, 5;
    end if;
    if tg_op <> 'DELETE' then
        insert into homing_counts (route, queue, state, error_class, failed_because, number)
        select
            o.route, o.queue, o.state,
            case when o.state = 'failed' then coalesce(o.error_class, '') else '' end,
            case when o.state = 'failed' then coalesce(o.failed_because, '') else '' end,
            count(*)
        from put as o
        group by 1, 2, 3, 4, 5;
    end if;
    return null;
end
$$;

delete from homing_counts where state = 'failed';

insert into homing_counts (route, queue, state, error_class, failed_because, number)
select d.route, d.queue, d.state, coalesce(d.error_class, ''), coalesce(d.failed_because, ''), count(*)
from homing_ended as d
where d.state = 'failed'
group by 1, 2, 3, 4, 5;

-- old workers: go on
-- How many have ended, so that a count reads a few rows and not millions. Every statement that
-- writes `homing_ended` appends by how much the numbers change: commits of different processes never
-- wait for each other. Housekeeping adds the rows up (see queries/purge.sql). What is open is counted
-- when it is asked for. Triggers, so that workers of the version before are counted too.
create table homing_counts (
    route text collate "C" not null,
    queue text collate "C" not null,
    state text collate "C" not null,
    number bigint not null
);

alter table homing_counts set (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

-- With the path and the rights of the tables' owner: a caller's transaction may have others. Temporary
-- tables of the caller come last in the path, so that they cannot stand for Homing's.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

create function homing_count_ended() returns trigger
language plpgsql security definer set search_path from current as $$
begin
    if tg_op <> 'INSERT' then
        insert into homing_counts (route, queue, state, number)
        select o.route, o.queue, o.state, -count(*) from gone as o group by o.route, o.queue, o.state;
    end if;
    if tg_op <> 'DELETE' then
        insert into homing_counts (route, queue, state, number)
        select o.route, o.queue, o.state, count(*) from put as o group by o.route, o.queue, o.state;
    end if;
    return null;
end
$$;

create function homing_count_none() returns trigger
language plpgsql security definer set search_path from current as $$
begin
    delete from homing_counts;
    return null;
end
$$;

create trigger homing_ended_put after insert on homing_ended
referencing new table as put
for each statement execute function homing_count_ended();

create trigger homing_ended_gone after delete on homing_ended
referencing old table as gone
for each statement execute function homing_count_ended();

create trigger homing_ended_changed after update on homing_ended
referencing old table as gone new table as put
for each statement execute function homing_count_ended();

create trigger homing_ended_emptied after truncate on homing_ended
for each statement execute function homing_count_none();

insert into homing_counts (route, queue, state, number)
select d.route, d.queue, d.state, count(*) from homing_ended as d group by d.route, d.queue, d.state;

-- A query for one state then reads one of the two tables.
alter table homing_open add constraint homing_open_state
check (state in ('pending', 'in_flight', 'waiting'));

alter table homing_ended add constraint homing_ended_state
check (state in ('delivered', 'suppressed', 'failed', 'dismissed'));

-- Dead letters by their kind: counted from the index alone.
create index homing_ended_failed_groups
on homing_ended (route, error_class, failed_because, created_at_ms, id, updated_at_ms)
where state = 'failed';

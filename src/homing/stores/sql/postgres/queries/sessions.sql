-- name: hold
select pg_advisory_lock_shared(hashtext('homing_sessions'), hashtext($1));

-- name: note
insert into homing_sessions (holder) values ($1) on conflict do nothing;

-- name: forget
delete from homing_sessions where holder = $1;

-- name: release
select pg_advisory_unlock_shared(hashtext('homing_sessions'), hashtext($1));

-- Holders whose session has ended.
-- name: ended
select s.holder
from homing_sessions as s
where not exists (
    select from pg_locks as l
    where
        l.locktype = 'advisory' and l.granted
        and l.database = (select oid from pg_database where datname = current_database())
        and l.classid::bigint = hashtext('homing_sessions')::bigint & 4294967295
        and l.objid::bigint = hashtext(s.holder)::bigint & 4294967295
        and l.objsubid = 2
);

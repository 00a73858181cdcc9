-- Which tables a connection writes to, and whether its commits are durable. The name of the table
-- is looked up as in every statement: by the connection's own search path.
-- name: tables
select
    s.system_identifier::text,
    current_database()::text,
    coalesce(c.oid::bigint, 0),
    coalesce(c.relnamespace::regnamespace::text, ''),
    current_setting('fsync'),
    current_setting('synchronous_commit'),
    current_setting('full_page_writes')
from pg_control_system() as s
left join pg_class as c on c.oid = to_regclass('homing_open');

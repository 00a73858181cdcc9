-- name: durability
select
    current_setting('fsync'),
    current_setting('synchronous_commit'),
    current_setting('full_page_writes');

-- name: oldest_snapshot
select extract(epoch from max(now() - xact_start))::float8
from pg_stat_activity
where datname = current_database() and backend_xmin is not null;

-- name: database
select id from homing_database;

-- Any number that no other program takes; held until the end of the transaction.
-- name: lock_migrations
select pg_advisory_xact_lock(hashtext('homing_migrations'), hashtext(current_schema()));

-- name: create_migrations
create table if not exists homing_migrations (
    number integer primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default now()
);

-- name: has_migrations
select to_regclass('homing_migrations') is not null;

-- name: applied_migrations
select number, checksum from homing_migrations;

-- name: note_migration
insert into homing_migrations (number, name, checksum)
values (:number, :name, :checksum);

-- Only where the tables are there already.
-- name: heartbeats_since
select key from homing_facts where kind = 'worker' and at_ms > :since_ms;

-- name: create_plugin_files
create table if not exists homing_plugin_files (
    plugin text not null,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default now(),
    primary key (plugin, name)
);

-- name: has_plugin_files
select to_regclass('homing_plugin_files') is not null;

-- name: applied_files
select plugin, name, checksum from homing_plugin_files;

-- name: note_file
insert into homing_plugin_files (plugin, name, checksum)
values (:plugin, :name, :checksum);

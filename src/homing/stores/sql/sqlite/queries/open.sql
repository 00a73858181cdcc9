-- As in add.sql: the connection may be a caller's, so text comes as blobs.

-- name: durability
select cast(j.journal_mode as blob), +s.synchronous
from pragma_journal_mode as j, pragma_synchronous as s;

-- name: file
select cast(file as blob) from pragma_database_list where name = 'main';

-- name: create_migrations
create table if not exists homing_migrations (
    number integer primary key,
    name text not null,
    checksum text not null,
    applied_at text not null default current_timestamp
) strict;

-- name: has_migrations
select count(*) from sqlite_schema where type = 'table' and name = 'homing_migrations';

-- name: applied_migrations
select number, cast(checksum as blob) from homing_migrations;

-- name: note_migration
insert into homing_migrations (number, name, checksum)
values (:number, :name, :checksum);

-- Only where the tables are there already.
-- name: heartbeats_since
select cast(key as blob) from homing_facts where kind = 'worker' and at_ms > :since_ms;

-- name: create_plugin_files
create table if not exists homing_plugin_files (
    plugin text not null,
    name text not null,
    checksum text not null,
    applied_at text not null default current_timestamp,
    primary key (plugin, name)
) strict, without rowid;

-- name: has_plugin_files
select count(*) from sqlite_schema where type = 'table' and name = 'homing_plugin_files';

-- name: applied_files
select plugin, name, checksum from homing_plugin_files;

-- name: note_file
insert into homing_plugin_files (plugin, name, checksum)
values (:plugin, :name, :checksum);

-- name: pulse
select database, beat from homing_pulse;

-- name: raise_pulse
update homing_pulse set beat = beat + 1 returning database, beat;

-- name: create
create table if not exists homing_plugin_files (
    plugin text not null,
    name text not null,
    checksum text not null,
    applied_at text not null default current_timestamp,
    primary key (plugin, name)
) strict, without rowid;

-- name: is_there
select count(*) from sqlite_schema where type = 'table' and name = 'homing_plugin_files';

-- name: applied
select plugin, name, checksum from homing_plugin_files;

-- name: note
insert into homing_plugin_files (plugin, name, checksum)
values (?, ?, ?);

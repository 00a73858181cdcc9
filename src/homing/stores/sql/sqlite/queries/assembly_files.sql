-- name: create
create table if not exists homing_assembly_files (
    assembly text not null,
    name text not null,
    checksum text not null,
    applied_at text not null default current_timestamp,
    primary key (assembly, name)
) strict, without rowid;

-- name: is_there
select count(*) from sqlite_schema where type = 'table' and name = 'homing_assembly_files';

-- name: applied
select assembly, name, checksum from homing_assembly_files;

-- name: note
insert into homing_assembly_files (assembly, name, checksum)
values (?, ?, ?);

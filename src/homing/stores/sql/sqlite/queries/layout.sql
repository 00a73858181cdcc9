-- Statements on the table of a record layout. `:table:` is its name, `:key:` its column with the id of
-- the delivery.

-- name: there
select name from sqlite_schema where type = 'table' and name = ?;

-- name: put
insert into :table: (:names:) values (:values:) on conflict (:key:) do update set :set:;

-- name: delete
delete from :table: where :key: = ?;

-- name: row
select * from :table: where :key: = ?;

-- name: marked
select key, value from homing_facts where kind = ? and key > ? and key < ? order by key limit ?;

-- name: is_marked
select 1 from homing_facts where kind = ? and key = ?;

-- name: unmark
delete from homing_facts where kind = ? and key = ?;

-- A row that was changed again in between keeps its mark.
-- name: unmark_seen
delete from homing_facts where kind = ? and key = ? and value = ?;

-- Statements on the table of a record layout. `:table:` is its name, `:key:` its column with the id of
-- the delivery, `:rows:` a table `w` of the rows to write, `:names:` the names of its columns.

-- Which of these tables there are.
-- name: there
select name from unnest(@names::text[]) as name where to_regclass(name) is not null;

-- A row with this id, or another one with what must be unique, is left as it is.
-- name: insert
put_layout_:nth: as (
    insert into :table: (:names:) select :names: from :rows: on conflict do nothing
)

-- name: update
put_layout_:nth: as (
    update :table: as t
    set :set:
    from :rows:
    where t.:key: = w.:key: and :is_saved:
    returning t.:key:
)

-- As in write.sql, where the key is never null: a look into a hash table, not a join.
-- name: is_saved
(w.:key: is null or w.:key:::text in (select s.id from saved as s))

-- name: inserted
with :step: select where false

-- name: updated
with :step: select u.:key:::text from put_layout_0 as u

-- Whoever changes a row waits here until the transaction ends.
-- name: lock
select t.:key:::text from :table: as t join :rows: on t.:key: = w.:key: for update of t

-- name: delete
delete from :table: as t using :rows: where t.:key: = w.:key:

-- name: stored
select r.payload, r.record, :fresh:
from homing_deliveries as d
join homing_records as r on r.id = d.id
where d.id = any(@ids::text[]);

-- name: marked
select f.key, f.value
from homing_facts as f
where f.kind = @kind::text and f.key > @prefix::text || '/' and f.key < @prefix::text || '0'
order by f.key
limit @limit::bigint;

-- name: rows
select t.:key:::text, to_jsonb(t)::text from :table: as t join :rows: on t.:key: = w.:key:

-- A row that was changed again in between keeps its mark.
-- name: unmark
delete from homing_facts as f
using unnest(@keys::text[], @values::text[]) as w (key, value)
where f.kind = @kind::text and f.key = w.key and f.value = w.value;

-- name: begin_own
select set_config('homing.writes', 'on', true);

-- name: end_own
select set_config('homing.writes', '', true);

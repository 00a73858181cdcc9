-- A view that only takes rows in: what is inserted into it goes to all tables by one statement.
-- Both are temporary, so that they belong to the writer's connection and to no schema.

-- name: make_view
create temp view homing_new as
select :varying:, null as record, null as payload, null as fingerprint, null as recipient,
    null as counted
from homing_deliveries;

-- An empty id only fills up the width of the statement.
-- name: make_trigger
create temp trigger homing_add_new instead of insert on homing_new when new.id <> ''
begin
    insert into homing_deliveries (:columns:, open_children, carries, is_stale)
    values (:new_varying:, :usual_values:, 0, 1, 0);

    insert into homing_records (seq, record) values (last_insert_rowid(), new.record);

    insert into homing_contents (seq, payload) values (last_insert_rowid(), new.payload);

    insert into homing_recipients (address, seq)
    select new.recipient, last_insert_rowid() where new.recipient is not null;

    insert into homing_keys (source, key, delivery_id, fingerprint)
    select new.source, new.key, new.id, new.fingerprint where new.key is not null;
end;

-- `counted` is how many deliveries of its route and queue are inserted together, said by one of them
-- and 0 in the others.
-- name: make_counting_trigger
create temp trigger homing_count_new instead of insert on homing_new when new.counted > 0
begin
    insert into homing_counts (route, queue, state, error_class, failed_because, number)
    values (new.route, new.queue, 'open', '', '', new.counted)
    on conflict (route, queue, state, error_class, failed_because)
    do update set number = number + excluded.number;
end;

-- name: add_new
insert into homing_new (:varying:, record, payload, fingerprint, recipient, counted)
values (:varying_row:, ?, ?, nullif(?, 0.5), nullif(?, 0.5), ?);

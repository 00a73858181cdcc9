-- Waits for another transaction that has written the same fact and is not over.
-- name: put
insert into homing_facts (kind, key, at_ms, value)
values (%s, %s, %s, %s)
on conflict (kind, key) do nothing;

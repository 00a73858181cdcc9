-- A mark alone is written here and not into the record: it stands on the way of every send. Whoever
-- writes the record again clears it.
alter table homing_deliveries add column marked_at_ms integer;

"""The booking application, an example over the outbox; `homing bookings serve` runs it."""

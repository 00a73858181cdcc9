"""One process: its engine, its heartbeat, its housekeeping, its alerts."""

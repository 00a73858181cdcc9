"""The SQL files of the event outbox for PostgreSQL."""

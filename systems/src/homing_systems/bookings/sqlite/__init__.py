"""The SQL files of the booking outbox for SQLite."""

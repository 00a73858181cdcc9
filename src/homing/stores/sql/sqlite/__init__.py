"""SQLite as the store: one file, one writer thread, groups of writes in one durable commit."""

from homing.stores.sql.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]

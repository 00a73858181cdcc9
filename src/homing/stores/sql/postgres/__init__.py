"""PostgreSQL as the store: many processes on many hosts, one statement per batch."""

from homing.stores.sql.postgres.store import PostgresStore

__all__ = ["PostgresStore"]

"""SQLite as the store: one file, one writer thread, groups of writes in one durable commit."""

from homing.stores.file_url import path_of
from homing.stores.sql.sqlite.store import SqliteStore

__all__ = ["SqliteStore", "from_url"]


def from_url(url: str) -> SqliteStore:
    """The store in the file of a URL such as `sqlite:///outbox.db`."""
    return SqliteStore(path_of(url, "outbox.db"))

"""Adding inside the caller's own transaction: sqlite3, SQLAlchemy and Django connections."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from homing.domain.delivery import Fact, New
from homing.domain.errors import InvalidRequest, StoreUnsafe
from homing.domain.writes import write_of_new
from homing.ports import Added, Existing
from homing.stores.sql.sqlite.adding import AddRequest, add_all, new_entry
from homing.stores.sql.sqlite.checkpoint import CHECKPOINTS_ARE_SAFE_SINCE
from homing.stores.sql.sqlite.connection import check_durability, database_file
from homing.stores.sql.sqlite.faults import store_error
from homing.stores.sql.sqlite.session import Session

# Where other libraries keep the connection that they wrap, outermost first: the async sides of
# SQLAlchemy, its pool, aiosqlite, its connections and sessions, Django.
_INNER = ("sync_session", "sync_connection", "driver_connection", "_conn", "connection")
_DEEPEST = 6


class SqliteTransaction:
    """The caller's open transaction. What is added is committed or rolled back with it."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, added: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._path = path
        self._added = added

    def add(self, new: Sequence[New], facts: Sequence[Fact] = ()) -> list[Added | Existing]:
        request = AddRequest([new_entry(write_of_new(one)) for one in new], facts)
        try:
            self._begin()
            answers = self._add(request)
        except sqlite3.Error as error:
            raise store_error(error, self._path) from error
        self._added()
        return answers

    def _begin(self) -> None:
        """A transaction is open, or the connection is one that opens it with the first write."""
        connection = self._connection
        if connection.in_transaction:
            return
        if connection.isolation_level is None or getattr(connection, "autocommit", -1) is True:
            raise InvalidRequest("within", "no transaction is open on this connection")
        sqlite3.Cursor(connection).execute("begin immediate")

    def _add(self, request: AddRequest) -> list[Added | Existing]:
        session = Session(self._connection)
        session.run("savepoint homing")
        try:
            # Writes nothing, but takes the write lock: no other connection can take a free key.
            session.run("update homing_pulse set beat = beat where false")
            [answers] = add_all(session, [request])
            session.finish()
        except BaseException:
            # SQLite itself may have rolled back everything; then there is nothing to undo.
            with contextlib.suppress(sqlite3.OperationalError):
                session.run("rollback to homing")
                session.run("release homing")
            raise
        session.run("release homing")
        return answers


def join(connection: object, path: Path, added: Callable[[], None]) -> SqliteTransaction:
    """Find the SQLite connection inside, and refuse it unless it keeps the store's promise.

    `added` is called after each add, because the caller's commit, which follows, sends no signal.
    """
    inner = _sqlite_connection(connection)
    try:
        file = database_file(inner)
        if not file or not Path(file).samefile(path):
            raise StoreUnsafe(f"the connection's database is {file or 'in memory'}, not {path}")
        check_durability(inner)
        if sqlite3.sqlite_version_info < CHECKPOINTS_ARE_SAFE_SINCE:
            sqlite3.Cursor(inner).execute("pragma wal_autocheckpoint = 0")
    except sqlite3.Error as error:
        raise store_error(error, path) from error
    return SqliteTransaction(inner, path, added)


def _sqlite_connection(connection: object) -> sqlite3.Connection:
    inner: Any = connection
    for _ in range(_DEEPEST):
        if isinstance(inner, sqlite3.Connection):
            return inner
        if hasattr(inner, "ensure_connection"):  # Django connects when it must
            inner.ensure_connection()
        name = next((name for name in _INNER if getattr(inner, name, None) is not None), None)
        if name is None:
            break
        inner = getattr(inner, name)
        if callable(inner) and not isinstance(inner, sqlite3.Connection):
            inner = inner()
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise InvalidRequest("within", f"a {kind} holds no SQLite connection")

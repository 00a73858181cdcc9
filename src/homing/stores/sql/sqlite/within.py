"""Adding inside the caller's own transaction: sqlite3, SQLAlchemy and Django connections."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from homing.domain.delivery import Fact, New
from homing.domain.errors import InvalidRequest, StoreUnavailable, StoreUnsafe
from homing.domain.writes import write_of_new
from homing.ports import Added, Existing, Put
from homing.stores.sql.layouts import LayoutTables
from homing.stores.sql.sqlite.checkpoint import CHECKPOINTS_ARE_SAFE_SINCE
from homing.stores.sql.sqlite.connection import (
    check_durability,
    database_file,
    migrate_within,
    pending_migrations,
)
from homing.stores.sql.sqlite.executing import execute
from homing.stores.sql.sqlite.faults import store_error
from homing.stores.sql.sqlite.layout_rows import show
from homing.stores.sql.sqlite.looking import NOTHING, look
from homing.stores.sql.sqlite.session import Session

# Where other libraries keep the connection that they wrap, outermost first: the async sides of
# SQLAlchemy, its pool, aiosqlite, its connections and sessions, Django.
_INNER = ("sync_session", "sync_connection", "driver_connection", "_conn", "connection")
_DEEPEST = 6
_TRY_AGAIN_S = 0.005


class SqliteTransaction:
    """The caller's open transaction. What is added is committed or rolled back with it."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        added: Callable[[], None],
        layouts: LayoutTables | None,
    ) -> None:
        self.connection = connection
        self._layouts = layouts
        self._path = path
        self._added = added

    def add(self, new: Sequence[New], facts: Sequence[Fact] = ()) -> list[Added | Existing]:
        put = Put([write_of_new(one) for one in new], facts)
        try:
            self._begin()
            answers = self._add(put)
        except sqlite3.Error as error:
            raise store_error(error, self._path) from error
        self._added()
        return answers

    def _begin(self) -> None:
        """A transaction is open, or the connection is one that opens it with the first write."""
        connection = self.connection
        if connection.in_transaction:
            return
        if connection.isolation_level is None or getattr(connection, "autocommit", -1) is True:
            raise InvalidRequest("within", "no transaction is open on this connection")
        sqlite3.Cursor(connection).execute("begin immediate")

    def _add(self, put: Put) -> list[Added | Existing]:
        session = Session(self.connection)
        session.run("savepoint homing")
        try:
            self._make_schema()
            # Writes nothing, but takes the write lock: no other connection can take a free key.
            session.run("update homing_pulse set beat = beat where false")
            steps = look(session, [put], NOTHING)
            execute(session, steps)
            if self._layouts:
                show(session, self._layouts, steps.plan.put)
            session.finish()
        except BaseException:
            # SQLite itself may have rolled back everything; then there is nothing to undo.
            with contextlib.suppress(sqlite3.OperationalError):
                session.run("rollback to homing")
                session.run("release homing")
            raise
        session.run("release homing")
        return cast("list[Added | Existing]", steps.plan.judged.answers[0])

    def _make_schema(self) -> None:
        """Only where there is none: other changes are made by a start, which looks who is alive."""
        pending = pending_migrations(self.connection)
        if not pending:
            return
        if pending[0].number > 1:
            names = ", ".join(f"{each.number:04}_{each.name}" for each in pending)
            raise StoreUnavailable(
                f"{self._path.name} has an older schema, without {names}:"
                " start Homing once, or run `homing migrate`, before you submit"
            )
        migrate_within(self.connection)


class SqliteAsyncTransaction:
    """The same for an event loop, which goes on while another connection holds the write lock.

    The add itself stays in the loop's thread: a connection may be used in its own thread only.
    """

    def __init__(self, transaction: SqliteTransaction) -> None:
        self._transaction = transaction
        self._connection = transaction.connection

    async def add(self, new: Sequence[New], facts: Sequence[Fact] = ()) -> list[Added | Existing]:
        [(timeout_ms,)] = sqlite3.Cursor(self._connection).execute("pragma busy_timeout")
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_ms / 1000
        while True:
            try:
                with self._not_waiting(timeout_ms):
                    return self._transaction.add(new, facts)
            except StoreUnavailable as error:
                if not _is_locked(error.__cause__) or loop.time() > deadline_s:
                    raise
            await asyncio.sleep(_TRY_AGAIN_S)

    @contextlib.contextmanager
    def _not_waiting(self, timeout_ms: int) -> Iterator[None]:
        cursor = sqlite3.Cursor(self._connection)
        cursor.execute("pragma busy_timeout = 0")
        try:
            yield
        finally:
            cursor.execute(f"pragma busy_timeout = {timeout_ms}")


def _is_locked(error: BaseException | None) -> bool:
    """Not BUSY_SNAPSHOT: a transaction that has read what is outdated can never write."""
    return isinstance(error, sqlite3.Error) and error.sqlite_errorcode == sqlite3.SQLITE_BUSY


def join(
    connection: object,
    path: Path,
    added: Callable[[], None],
    layouts: LayoutTables | None = None,
) -> SqliteTransaction:
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
    except sqlite3.ProgrammingError as error:  # above all: it may be used in its own thread only
        raise InvalidRequest("within", f"the connection cannot be used: {error}") from error
    except sqlite3.Error as error:
        raise store_error(error, path) from error
    return SqliteTransaction(inner, path, added, layouts)


def join_async(
    connection: object,
    path: Path,
    added: Callable[[], None],
    layouts: LayoutTables | None = None,
) -> SqliteAsyncTransaction:
    """As `join`."""
    return SqliteAsyncTransaction(join(connection, path, added, layouts))


def _sqlite_connection(connection: object) -> sqlite3.Connection:
    inner: Any = connection
    for _ in range(_DEEPEST):
        if isinstance(inner, sqlite3.Connection):
            return inner
        if hasattr(inner, "ensure_connection"):  # Django connects when it must
            inner.ensure_connection()
        if _is_sqlalchemy(inner) and not inner.in_transaction():
            inner.begin()  # it would not commit what it has not begun
        name = next((name for name in _INNER if getattr(inner, name, None) is not None), None)
        if name is None:
            break
        inner = getattr(inner, name)
        if callable(inner) and not isinstance(inner, sqlite3.Connection):
            inner = inner()
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise InvalidRequest("within", f"a {kind} holds no SQLite connection")


def _is_sqlalchemy(connection: object) -> bool:
    """A connection of SQLAlchemy Core, not the async one around it."""
    return hasattr(connection, "exec_driver_sql") and not hasattr(connection, "sync_connection")

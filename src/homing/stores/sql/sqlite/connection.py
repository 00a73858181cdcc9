"""Connections that keep the promise: accepted means synced to the disk."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

from homing.domain.errors import StoreUnsafe
from homing.stores.sql import schema
from homing.stores.sql.asking import Steps, run
from homing.stores.sql.migrate import Migration
from homing.stores.sql.plugin_files import PluginFile
from homing.stores.sql.schema import Schema
from homing.stores.sql.sqlite.checkpoint import LONG_LOG_BYTES, PAGE_BYTES
from homing.stores.sql.statements import load
from homing.stores.syncing import sync_folder

T = TypeVar("T")
_SQL = load(__package__, "open.sql")
OLDEST_SQLITE = (3, 38, 0)
FULL = 2
# Measured with half a million rows: adding and draining cost the same with 8, 16 and 32 MB.
WRITER_CACHE_KIB = 16 * 1024
READER_CACHE_KIB = 4 * 1024
_RETRY_S = 0.02
_OWNER_ONLY = 0o600
_SIDE_FILES = ("", "-wal", "-shm")


def create_file(path: Path) -> None:
    """The database, readable by its owner alone; SQLite gives its side files the same mode.

    An existing file is never opened here: closing it would drop the locks that SQLite holds on
    it elsewhere in this process.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _OWNER_ONLY))
        sync_folder(path.parent)
    for suffix in _SIDE_FILES:
        with contextlib.suppress(FileNotFoundError):
            side = path.with_name(path.name + suffix)
            if side.stat().st_mode & 0o077:
                side.chmod(_OWNER_ONLY)


def connect(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    """A connection without implicit transactions that never checkpoints by itself."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        raise StoreUnsafe(f"SQLite {sqlite3.sqlite_version} is too old: {needed} is needed")
    connection = sqlite3.connect(
        path,
        timeout=busy_timeout_s,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=512,
    )
    for pragma in (
        "pragma wal_autocheckpoint = 0",
        "pragma synchronous = full",
        "pragma fullfsync = on",
        "pragma checkpoint_fullfsync = on",
        f"pragma journal_size_limit = {LONG_LOG_BYTES}",
        "pragma trusted_schema = off",
    ):
        connection.execute(pragma)
    return connection


def connect_to_write(
    path: Path, busy_timeout_s: float, running: Callable[[], Collection[str]] = tuple
) -> sqlite3.Connection:
    """Make the file, migrate it and check its durability; refuse it if that fails.

    `running` names the processes of this host that work on the file.
    """
    create_file(path)
    connection = connect(path, busy_timeout_s)
    connection.execute(f"pragma cache_size = -{WRITER_CACHE_KIB}")
    # Of a new file. A commit writes whole pages, and most keys fall into pages of their own.
    connection.execute(f"pragma page_size = {PAGE_BYTES}")
    try:
        _use_write_ahead_log(connection, busy_timeout_s)
        check_durability(connection)
        _migrate(connection, running)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_to_read(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    connection = connect(path, busy_timeout_s)
    connection.execute("pragma query_only = on")
    connection.execute(f"pragma cache_size = -{READER_CACHE_KIB}")
    return connection


def check_durability(connection: sqlite3.Connection) -> None:
    """Refuse a connection whose commits a power cut could undo, naming the pragma."""
    [(journal_mode, synchronous)] = _ask(connection, "durability")
    if journal_mode != b"wal":
        raise StoreUnsafe(
            f"pragma journal_mode is {journal_mode.decode()}, and must be wal: run"
            " `pragma journal_mode = wal` once, outside of a transaction"
        )
    if synchronous < FULL:
        raise StoreUnsafe(f"pragma synchronous is {synchronous}, and must be 2 (full) or more")


def database_file(connection: sqlite3.Connection) -> str:
    """Which file the connection's main database is; empty for one in memory."""
    return "".join(file.decode() for (file,) in _ask(connection, "file") if file is not None)


def _ask(connection: sqlite3.Connection, question: str) -> list[tuple[Any, ...]]:
    # With a cursor of our own: it may be a caller's connection, with factories of its own.
    return sqlite3.Cursor(connection).execute(_SQL[question]).fetchall()


def _use_write_ahead_log(connection: sqlite3.Connection, busy_timeout_s: float) -> None:
    """Only the row that the pragma returns shows the mode. SQLite does not wait for this lock."""
    deadline_s = time.monotonic() + busy_timeout_s
    while True:
        try:
            row = connection.execute("pragma journal_mode = wal").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            if time.monotonic() > deadline_s:
                raise
            time.sleep(_RETRY_S)
            continue
        if row != ("wal",):
            raise StoreUnsafe(f"pragma journal_mode stays {row[0]}, and must become wal")
        return


def _migrate(connection: sqlite3.Connection, running: Callable[[], Collection[str]]) -> None:
    # A schema that is up to date needs no write lock, which a caller of `within` may hold.
    if pending_migrations(connection):
        _transact(connection, schema.apply_migrations(SCHEMA, running))


def migrate_within(connection: sqlite3.Connection) -> None:
    """Bring the schema up to date, in the transaction that is open on this connection."""
    _answer(connection, schema.apply_migrations(SCHEMA))


def apply_files(path: Path, busy_timeout_s: float, files: Sequence[PluginFile]) -> None:
    """The SQL files of plugins."""
    with contextlib.closing(connect(path, busy_timeout_s)) as connection:
        _transact(connection, schema.apply_files(SCHEMA, files))


def pending_migrations(connection: sqlite3.Connection) -> tuple[Migration, ...]:
    return _answer(connection, schema.pending_migrations(SCHEMA))


def pending_names(connection: sqlite3.Connection, files: Sequence[PluginFile]) -> list[str]:
    """The migrations and SQL files of plugins that the next start would apply."""
    return _answer(connection, schema.pending_names(SCHEMA, files))


def _transact(connection: sqlite3.Connection, steps: Steps[None]) -> None:
    connection.execute("begin immediate")
    try:
        _answer(connection, steps)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _answer(connection: sqlite3.Connection, steps: Steps[T]) -> T:
    # With a cursor of our own: it may be a caller's connection, with factories of its own.
    cursor = sqlite3.Cursor(connection)
    return run(steps, lambda ask: cursor.execute(ask.sql, ask.values).fetchall())


def statements_of(script: str) -> list[str]:
    """One by one, because running a script as a whole would first commit what is open."""
    found: list[str] = []
    gathered = ""
    for line in script.splitlines(keepends=True):
        gathered += line
        if sqlite3.complete_statement(gathered):
            found.append(gathered)
            gathered = ""
    return found


SCHEMA = Schema(__package__, _SQL, statements_of)

"""Checks of a database that is not opened as a store. Only reads."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from homing.ports import Finding
from homing.stores.files import file_findings
from homing.stores.sql.plugin_files import PluginFile
from homing.stores.sql.sqlite import connection
from homing.stores.sql.sqlite.checkpoint import CHECKPOINTS_ARE_SAFE_SINCE, STUCK_LOG_BYTES
from homing.stores.sql.sqlite.faults import store_error
from homing.stores.sql.sqlite.high_water import SUFFIX as HIGH_WATER
from homing.stores.sql.sqlite.high_water import restored_text

JOURNAL = ".emergency"
# The database, what SQLite keeps beside it, and what Homing does.
SUFFIXES = ("", "-wal", "-shm", JOURNAL, ".checkpoint.lock", HIGH_WATER)
# While it is read, the log cannot be emptied.
CHECK_WITHIN_S = 10.0
_LOOK_AT_CLOCK_EVERY_STEPS = 1000


def findings(path: Path) -> Iterator[Finding]:
    found = [
        finding
        for suffix in SUFFIXES
        for finding in file_findings(path.with_name(path.name + suffix))
    ]
    yield from found or [Finding("files", "good", f"{path.name}: modes are as they should be")]
    with contextlib.suppress(OSError):
        log_bytes = path.with_name(path.name + "-wal").stat().st_size
        if log_bytes > 2 * STUCK_LOG_BYTES:
            detail = (
                f"{path.name}-wal has {log_bytes >> 20} MB: a connection has been reading for long"
            )
            yield Finding("sqlite", "warning", detail)
    if path.exists() and (restored := _restored(path)) is not None:
        yield Finding("backup", "warning", restored)
    if path.exists():
        yield from _damage(path)
    detail = f"SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < CHECKPOINTS_ARE_SAFE_SINCE:
        safe = ".".join(map(str, CHECKPOINTS_ARE_SAFE_SINCE))
        detail += f", before {safe} (WAL-reset bug): so one connection alone checkpoints"
    yield Finding("sqlite", "good", detail)


def pending_names(path: Path, files: Sequence[PluginFile]) -> list[str]:
    """What the next `open` would apply; all of it where there is no database yet."""
    file = f"{path.absolute().as_uri()}?mode=ro" if path.exists() else ":memory:"
    try:
        with closing(sqlite3.connect(file, uri=True)) as database:
            return connection.pending_names(database, files)
    except sqlite3.Error as error:
        raise store_error(error, path) from None


def _restored(path: Path) -> str | None:
    file = f"{path.absolute().as_uri()}?mode=ro"
    # What is not ours or cannot be read is named by other checks.
    with contextlib.suppress(sqlite3.Error), closing(sqlite3.connect(file, uri=True)) as database:
        return restored_text(path, database)
    return None


def _damage(path: Path) -> Iterator[Finding]:
    """Tables that are damaged, or whose indexes are: each has a check of its own."""
    file = f"{path.absolute().as_uri()}?mode=ro"
    ends_at_s = time.monotonic() + CHECK_WITHIN_S

    def is_over() -> bool:
        return time.monotonic() >= ends_at_s

    # What cannot be opened or is no database is named by other checks.
    with contextlib.suppress(sqlite3.Error), closing(sqlite3.connect(file, uri=True)) as database:
        tables = database.execute("select name from sqlite_schema where type = 'table'").fetchall()
        database.set_progress_handler(is_over, _LOOK_AT_CLOCK_EVERY_STEPS)
        for (table,) in tables:
            found = "" if is_over() else _quick_check(database, table)
            if not found:
                detail = f"{path.name} was not checked to its end within {CHECK_WITHIN_S:g} s"
                yield Finding("sqlite", "warning", f"{detail}; `pragma quick_check` checks it all")
                return
            if found != "ok":
                yield Finding("store", "bad", f"table {table} is damaged: {found}")


def _quick_check(database: sqlite3.Connection, table: str) -> str:
    """The first flaw, or `ok`; empty if it was interrupted."""
    try:
        [text] = database.execute("select * from pragma_quick_check(?)", (table,)).fetchone()
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CORRUPT:
            return str(error)
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return ""
        raise
    return str(text).removeprefix("*** in database main ***").strip().partition("\n")[0]

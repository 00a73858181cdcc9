"""Notices an older copy of the database: a backup that was put back.

What was sent after the backup is unknown to it and will be sent again, so people must know. The
database counts up while it is written to, and a small file beside it keeps the highest count that
was seen here. The count is durable in the database before the file has it, so a power cut never
makes a database look old.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
from pathlib import Path

from homing.domain.delivery import Fact
from homing.engine.process.alerts import RESTORED
from homing.stores.own_files import open_own_file, refuse_link
from homing.stores.sql.planning import fact_rows
from homing.stores.sql.sqlite.rows import PARTS
from homing.stores.sql.statements import load

log = logging.getLogger("homing.store")

SUFFIX = ".high-water"
RAISED_EVERY_S = 1.0

_SQL = load(__package__, "open.sql")
_PUT_FACT = load(__package__, "add.sql", PARTS)["put_facts"]


class HighWater:
    """Used in the writer's thread."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._file = path.with_name(path.name + SUFFIX)
        refuse_link(self._file)
        self._connection = connection
        self._raised_at_s = float("-inf")
        self._raised_to: tuple[str, int] | None = None
        self.has_commits = False
        # Opening writes nothing: another connection may hold the write lock for long.
        self._restored = self._look_back()

    @property
    def is_due(self) -> bool:
        """The next commit counts up."""
        return time.monotonic() - self._raised_at_s >= RAISED_EVERY_S

    def raise_within_commit(self) -> None:
        """Call it in a transaction: about once a second it counts up."""
        self._raised_to = None
        self.has_commits = True
        if not self.is_due:
            return
        self._raised_at_s = time.monotonic()
        self._raised_to = self._connection.execute(_SQL["raise_pulse"]).fetchone()
        if self._restored is not None:
            self._connection.executemany(_PUT_FACT, fact_rows([self._restored]))

    def committed(self) -> None:
        if self._raised_to is None:
            return
        self.has_commits, self._restored = False, None
        with (
            contextlib.suppress(OSError),  # a full disk: the next second tries again
            os.fdopen(open_own_file(self._file, os.O_WRONLY | os.O_TRUNC), "w") as file,
        ):
            file.write("{} {}".format(*self._raised_to))

    def close(self) -> None:
        """The last commits of this life count, too."""
        if self.has_commits:
            with contextlib.suppress(sqlite3.OperationalError):  # locked, or full
                self._connection.execute("pragma synchronous = full")
                [self._raised_to] = self._connection.execute(_SQL["raise_pulse"]).fetchall()
                self.committed()

    def _look_back(self) -> Fact | None:
        """A database that is behind the file gets a fact, which is alerted and shown."""
        text = restored_text(self._path, self._connection)
        if text is None:
            return None
        log.warning("%s detail=%s", RESTORED, text)
        now_ms = round(time.time() * 1000)
        return Fact(RESTORED, str(now_ms), now_ms, {"text": text})


def restored_text(path: Path, connection: sqlite3.Connection) -> str | None:
    """What to tell if the database is older than the one that was used here; None if it is not."""
    [(database, beat)] = connection.execute(_SQL["pulse"])
    try:
        known, _, seen = path.with_name(path.name + SUFFIX).read_text().partition(" ")
    except (OSError, UnicodeDecodeError):
        return None
    if known != database or not seen.isdigit() or int(seen) <= beat:
        return None
    return (
        f"{path.name} is older than the one that was used here before: a backup was put back,"
        " and what was sent since then may be sent again"
    )

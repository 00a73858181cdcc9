"""Who may move the write-ahead log into the database: one connection of one process at a time.

Before 3.51.3 SQLite can lose commits when a log that was already moved is moved again while
another connection restarts it (the WAL-reset bug). So checkpoints are switched off in all
connections except the one whose process holds a lock file, and that one moves the log only right
after a commit of its own, when the log is certainly not empty.

A log starts anew only when no connection reads from it. Readers that always overlap would let it
grow without end, so a log that stays long is moved while the writers wait: connections that begin
to read after that read the database alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sqlite3
from pathlib import Path

from homing.stores.own_files import open_own_file

log = logging.getLogger("homing.store")

CHECKPOINTS_ARE_SAFE_SINCE = (3, 51, 3)
PAGES = 2000
PAGE_BYTES = 4096
LONG_LOG_BYTES = 2 * PAGES * PAGE_BYTES
# Some reader keeps the log from starting anew.
STUCK_LOG_BYTES = 4 * LONG_LOG_BYTES
CARE_EVERY_S = 1.0
_WAIT_FOR_READERS_MS = 200
_LONGEST_REST_S = 30.0


class Checkpointer:
    """The right to checkpoint, asked for until it is given, kept until the end."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._log = path.with_name(path.name + "-wal")
        self._connection = connection
        lock = path.with_name(path.name + ".checkpoint.lock")
        # flock, not lockf: closing another descriptor of the file would drop a POSIX lock.
        self._lock = open_own_file(lock, os.O_RDWR)
        self._cared_at_s = -CARE_EVERY_S
        self._rest_s = CARE_EVERY_S
        self._rests_until_s = float("-inf")
        self.is_mine = False

    def care(self, now_s: float) -> None:
        """Call it regularly: take the right if no process has it, keep the log short if we do."""
        if now_s - self._cared_at_s < CARE_EVERY_S:
            return
        self._cared_at_s = now_s
        if not self.is_mine:
            self._ask()
            return
        log_bytes = self.log_bytes()
        if log_bytes > STUCK_LOG_BYTES and now_s >= self._rests_until_s:
            self._move_all(now_s, log_bytes)
        elif log_bytes > LONG_LOG_BYTES:
            # Other processes have made the log long. A commit of ours moves it.
            self._connection.execute("update homing_pulse set beat = beat + 1")
        else:
            self._rest_s = CARE_EVERY_S

    def _move_all(self, now_s: float, log_bytes: int) -> None:
        """While a reader is in the way it is tried less and less often, because writers wait."""
        [(busy_ms,)] = self._connection.execute("pragma busy_timeout")
        self._connection.execute(f"pragma busy_timeout = {_WAIT_FOR_READERS_MS}")
        try:
            [(is_busy, *_)] = self._connection.execute("pragma wal_checkpoint(truncate)")
        finally:
            self._connection.execute(f"pragma busy_timeout = {busy_ms}")
        if not is_busy:
            return
        if self._rest_s >= _LONGEST_REST_S:
            log.warning(
                "log_cannot_be_emptied bytes=%d reason=a connection reads from it", log_bytes
            )
        self._rest_s = min(self._rest_s * 2, _LONGEST_REST_S)
        self._rests_until_s = now_s + self._rest_s

    def _ask(self) -> None:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._connection.execute(f"pragma wal_autocheckpoint = {PAGES}")
            self.is_mine = True

    def log_bytes(self) -> int:
        try:
            return self._log.stat().st_size
        except FileNotFoundError:
            return 0

    def close(self) -> None:
        """Empty the log, unless another connection is using it."""
        try:
            if self.is_mine:
                # It takes the write lock first, so no other connection restarts the log meanwhile.
                with contextlib.suppress(sqlite3.OperationalError):
                    self._connection.execute("pragma busy_timeout = 100")
                    self._connection.execute("pragma wal_checkpoint(truncate)").fetchall()
        finally:
            os.close(self._lock)

"""Who may move the write-ahead log into the database: one connection of one process at a time.

Before 3.51.3 SQLite can lose commits when a log that was already moved is moved again while
another connection restarts it (the WAL-reset bug). So checkpoints are switched off in all
connections except the one whose process holds a lock file, and that one moves the log only right
after a commit of its own, when the log is certainly not empty.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from pathlib import Path

CHECKPOINTS_ARE_SAFE_SINCE = (3, 51, 3)
PAGES = 2000
_PAGE_BYTES = 4096
LONG_LOG_BYTES = 2 * PAGES * _PAGE_BYTES
CARE_EVERY_S = 1.0


class Checkpointer:
    """The right to checkpoint, asked for until it is given, kept until the end."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._log = path.with_name(path.name + "-wal")
        self._connection = connection
        lock = path.with_name(path.name + ".checkpoint.lock")
        # flock, not lockf: closing another descriptor of the file would drop a POSIX lock.
        self._lock = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._cared_at_s = -CARE_EVERY_S
        self.is_mine = False

    def care(self, now_s: float) -> None:
        """Call it regularly: take the right if no process has it, keep the log short if we do."""
        if now_s - self._cared_at_s < CARE_EVERY_S:
            return
        self._cared_at_s = now_s
        if not self.is_mine:
            self._ask()
        elif self.log_bytes() > LONG_LOG_BYTES:
            # Other processes have made the log long. A commit of ours moves it.
            self._connection.execute("update homing_pulse set beat = beat + 1")

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

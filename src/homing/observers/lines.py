"""Append-only log files, mode 0600; lines are looked for before they are added."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

# A notice is given twice only after a crash, so its first line is among the newest: at most this
# far before the group with which it was written.
LOOKED_AT_BYTES = 1024 * 1024
# How many notices share a write and a sync.
LINES_AT_ONCE = 200
LOCK_TIMEOUT_S = 2.0
_LOCK_RETRY_S = 0.02


class LineFile:
    """Several processes may append; the lines are on disk when `append` returns.

    `mark` matches the part of a line that identifies it; a line without a match is identified by
    its whole text.
    """

    def __init__(self, path: Path, mark: re.Pattern[bytes] | None = None) -> None:
        self.path = path
        self._mark = mark

    def append(self, lines: Sequence[str]) -> None:
        """Add those that do not exist already (a repeated notice), in one write."""
        if not lines:
            return
        encoded = [line.encode("utf-8", "backslashreplace") for line in lines]
        with self._opened() as descriptor:
            size = os.fstat(descriptor).st_size
            start = max(size - LOOKED_AT_BYTES - sum(map(len, encoded)), 0)
            newest = os.pread(descriptor, size - start, start)
            known = {self._identity(line) for line in newest.split(b"\n")}
            new = {self._identity(line): line for line in encoded}
            added = [line + b"\n" for identity, line in new.items() if identity not in known]
            if not added:
                return
            # A line that a crash has cut off stays; ours begin on a new line.
            torn = bool(newest) and not newest.endswith(b"\n")
            data = b"\n" * torn + b"".join(added)
            if os.write(descriptor, data) != len(data):
                raise OSError(errno.ENOSPC, "the lines were cut short")
            os.fsync(descriptor)
            if size == 0:
                _sync_folder(self.path.parent)

    def _identity(self, line: bytes) -> bytes:
        found = None if self._mark is None else self._mark.search(line)
        return line if found is None else found.group()

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o600)
        try:
            _lock(descriptor)
            yield descriptor
        finally:
            # A child that was forked meanwhile has the descriptor too, and would keep the lock.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Wait for the lock, but not for ever: its owner may be a stopped process."""
    deadline_s = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(_LOCK_RETRY_S)
        else:
            return


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

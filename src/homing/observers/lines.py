"""Append-only log files, mode 0600; a line is looked for before it is added."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

# A notice is given twice only after a crash, so its first line is among the newest.
LOOKED_AT_BYTES = 1024 * 1024
LOCK_TIMEOUT_S = 2.0
_LOCK_RETRY_S = 0.02


class LineFile:
    """Several processes may append; a line is on disk when `append` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, line: str, *, unless: str | None = None) -> None:
        """Add the line, unless one with `unless` exists already (a repeated notice)."""
        with self._opened() as descriptor:
            size = os.fstat(descriptor).st_size
            start = max(size - LOOKED_AT_BYTES, 0)
            newest = os.pread(descriptor, size - start, start)
            if unless is not None and unless.encode() in newest:
                return
            # A line that a crash has cut off stays; ours begins on a new line.
            torn = bool(newest) and not newest.endswith(b"\n")
            data = b"\n" * torn + line.encode("utf-8", "backslashreplace") + b"\n"
            if os.write(descriptor, data) != len(data):
                raise OSError(errno.ENOSPC, "the line was cut short")
            os.fsync(descriptor)
            if size == 0:
                _sync_folder(self.path.parent)

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

"""Locks that all processes of this host share: `flock` on files beside the `.env` file.

They are tried without blocking, because a blocked thread could not be cancelled.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

TRY_AGAIN_S = 0.005


class FileLock:
    """A held lock. A child that was forked meanwhile shares it: only `release` gives it back."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.close()

    def close(self) -> None:
        """In a forked child: the parent keeps the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def try_lock(path: Path) -> FileLock | None:
    """None while another one has it. Raises OSError where there can be no such file."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return FileLock(descriptor)


async def lock_one(paths: Sequence[Path]) -> FileLock:
    """The first of these that becomes free."""
    while True:
        for path in paths:
            lock = try_lock(path)
            if lock is not None:
                return lock
        await asyncio.sleep(TRY_AGAIN_S)

"""The lock that every read for a decision and every write of the queue is made under.

`flock` on a file of its own: a POSIX lock ends when any descriptor of its file is closed, and the
queue itself is replaced when it is compacted.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from homing.domain.errors import StoreLocked
from homing.stores.host.descriptors import OwnDescriptor
from homing.stores.own_files import open_own_file

LOCK_WITHIN_S = 5.0
SUFFIX = ".lock"
# About as long as a commit takes: who waits longer between two tries gets the lock seldom.
_TRY_AGAIN_S = 0.0005


class QueueLock:
    def __init__(self, queue: Path) -> None:
        self._name = queue.name
        self._own = OwnDescriptor(open_own_file(queue.with_name(queue.name + SUFFIX), os.O_RDWR))

    def close(self) -> None:
        self._own.close()

    @contextmanager
    def held(self, until_s: float) -> Iterator[None]:
        """Raises `StoreLocked` if it is not free until then, by the monotonic clock."""
        while not self._take():
            if time.monotonic() >= until_s:
                raise StoreLocked(f"{self._name}: another process has kept it locked for too long")
            time.sleep(_TRY_AGAIN_S)
        try:
            yield
        finally:
            fcntl.flock(self._own.number, fcntl.LOCK_UN)

    def _take(self) -> bool:
        try:
            fcntl.flock(self._own.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

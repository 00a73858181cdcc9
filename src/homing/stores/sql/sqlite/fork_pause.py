"""What one thread keeps open, and what is closed while the process forks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from homing import forks

T = TypeVar("T")


class ForkPause(Generic[T]):
    """Opened on first use, and again after a fork. A fork waits until it is not in use."""

    def __init__(self, open_it: Callable[[], T], close_it: Callable[[T], None]) -> None:
        self._open_it = open_it
        self._close_it = close_it
        self._using = threading.Lock()
        self._opened: T | None = None
        forks.pause_for_forks(self)

    @contextmanager
    def use(self) -> Iterator[T]:
        with self._using:
            if self._opened is None:
                self._opened = self._open_it()
            yield self._opened

    def close(self) -> None:
        with self._using:
            self._close()

    def pause(self) -> None:
        self._using.acquire()
        self._close()

    def resume(self) -> None:
        self._using.release()

    def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            self._close_it(opened)

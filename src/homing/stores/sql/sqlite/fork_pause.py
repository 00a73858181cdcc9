"""What one thread keeps open, and what is closed while the process forks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from homing.runtime import forks

T = TypeVar("T")


class ForkPause(Generic[T]):
    """Used by `with`, which opens it at the first use and after a fork. A fork waits for the end of
    the `with`."""

    def __init__(self, open_it: Callable[[], T], close_it: Callable[[T], None]) -> None:
        self._open_it = open_it
        self._close_it = close_it
        self._using = threading.Lock()
        self._opened: T | None = None
        forks.pause_for_forks(self)

    def __enter__(self) -> T:
        self._using.acquire()
        if self._opened is None:
            try:
                self._opened = self._open_it()
            except BaseException:
                self._using.release()
                raise
        return self._opened

    def __exit__(self, *_: object) -> None:
        self._using.release()

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

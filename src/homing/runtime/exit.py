"""What is stopped when the program ends, while threads can still be used."""

from __future__ import annotations

import logging
import threading
from typing import Protocol

log = logging.getLogger("homing.sync")


class Stoppable(Protocol):
    def stop(self) -> None: ...


class AtExit:
    """A plain `atexit` function comes too late: thread pools refuse all work by then.

    `concurrent.futures` ends its pools by the function that is used here. It calls what was
    registered last first, and `multiprocessing` calls it in its children too.
    """

    def __init__(self) -> None:
        self.has_begun = False
        self._running: set[Stoppable] = set()
        self._is_registered = False

    def add(self, one: Stoppable) -> None:
        if not self._is_registered:
            import concurrent.futures.thread  # noqa: F401 - it must register before us

            threading._register_atexit(self._stop_all)  # type: ignore[attr-defined] # see above
            self._is_registered = True
        self._running.add(one)

    def discard(self, one: Stoppable) -> None:
        self._running.discard(one)

    def _stop_all(self) -> None:
        self.has_begun = True
        for one in tuple(self._running):
            try:
                one.stop()
            except Exception:
                log.exception("Homing could not be stopped in order at the end of the program")


AT_EXIT = AtExit()

"""What happens around a fork. Threads, locks and connections do not survive it; descriptors do.

SQLite must not have a connection open while a process forks: the child inherits SQLite's notes of
the locks that this process holds, but not the locks. So connections are closed before the fork,
and everything that belongs to the parent's run is forgotten in the child.
"""

from __future__ import annotations

# It has fork hooks of its own, and asyncio imports it late: if one thread did that while another
# forks, the hook after the fork would release a lock that the hook before it has not taken.
import concurrent.futures.thread  # noqa: F401
import logging
import os
import threading
import weakref
from typing import Protocol

log = logging.getLogger("homing.forks")


class PausesForForks(Protocol):
    """Has something that may not be open during a fork."""

    def pause(self) -> None:
        """Wait for its thread, close it, and keep the thread from opening it again."""

    def resume(self) -> None:
        """In the parent, after the fork."""


class Inheriting(Protocol):
    """Holds what belongs to the process that made it."""

    def _forget_parent(self) -> None:
        """In the child: return to the initial state, and touch nothing that the parent uses."""


_changing = threading.Lock()  # held while the process forks: nothing is opened meanwhile
_pausing_for_forks: weakref.WeakSet[PausesForForks] = weakref.WeakSet()
_inheriting: weakref.WeakSet[Inheriting] = weakref.WeakSet()
_paused: list[PausesForForks] = []


def pause_for_forks(one: PausesForForks) -> None:
    with _changing:
        _pausing_for_forks.add(one)


def forget_in_child(one: Inheriting) -> None:
    _inheriting.add(one)


def leave_to_parent(one: object) -> None:
    """Never destroy it in this process: its destructor would act on what the parent still uses."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


def _before() -> None:
    _changing.acquire()
    _paused[:] = _pausing_for_forks
    for one in _paused:
        try:
            one.pause()
        except Exception:
            log.exception("%s could not be closed before a fork", type(one).__name__)


def _in_parent() -> None:
    for one in _paused:
        one.resume()
    _paused.clear()
    _changing.release()


def _in_child() -> None:
    _paused.clear()
    _changing.release()
    for one in tuple(_inheriting):
        one._forget_parent()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)

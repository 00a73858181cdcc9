"""A large add in parts: the writer's thread writes one while the event loop makes the next.

All parts are one transaction. Each is written by one statement, which does not need the
interpreter while it runs (see adding_new.py). The writer does not wait long for a part, because it
holds the lock of the file: if one is late, nothing is stored, and the store adds all of them once
they are made.
"""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Iterator, Sequence

from homing.domain.errors import StoreError
from homing.ports import Added, Existing
from homing.stores.sql.sqlite.adding import AddRequest, NewEntry, add_all
from homing.stores.sql.sqlite.session import Session

# Making one takes about a millisecond, unless what makes it forks, or is interrupted.
LONGEST_WAIT_S = 0.25


class GivenUp(StoreError):
    """A part could not be made: nothing is stored."""


class PartsLate(StoreError):
    """A part was not made in time: nothing is stored."""


class PartsRequest:
    """The parts in their order: made in the event loop, read in the writer's thread."""

    def __init__(self, parts: Iterator[list[NewEntry]]) -> None:
        """The first part is made here: until there is one, the lock of the file is not needed."""
        self._parts = parts
        self._made = [next(parts, [])]
        self._coming: queue.SimpleQueue[list[NewEntry] | None] = queue.SimpleQueue()
        self._read = self._made[:]
        self._has_ended = False
        self._is_given_up = False
        self._is_late = False

    def make_all(self) -> None:
        """Without a turn of the event loop: the writer waits for them and holds the lock."""
        try:
            for part in self._parts:
                self._made.append(part)
                self._coming.put(part)
                # The writer may need the interpreter for its next part, and would wait 5 ms for it.
                time.sleep(0)
        except BaseException:
            self._is_given_up = True
            raise
        finally:
            self._coming.put(None)

    def made(self) -> list[NewEntry]:
        return [entry for part in self._made for entry in part]

    def read(self) -> Iterator[list[NewEntry]]:
        """All parts, and all again after a transaction that was undone."""
        yield from self._read
        while not self._has_ended:
            part = self._next()
            if part is None:
                self._has_ended = True
            else:
                self._read.append(part)
                yield part
        if self._is_given_up:
            raise GivenUp("a part of what is to be added could not be made")

    def _next(self) -> list[NewEntry] | None:
        if not self._is_late:
            with contextlib.suppress(queue.Empty):
                return self._coming.get(timeout=LONGEST_WAIT_S)
        self._is_late = True
        raise PartsLate("a part of what is to be added was not made in time")


def add_in_parts(
    session: Session, requests: Sequence[PartsRequest]
) -> list[list[Added | Existing]]:
    return [_add(session, request) for request in requests]


def _add(session: Session, request: PartsRequest) -> list[Added | Existing]:
    answers: list[Added | Existing] = []
    for part in request.read():
        [added] = add_all(session, [AddRequest(part, ())])
        answers += added
    return answers

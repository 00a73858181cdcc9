"""A large add in parts: the writer's thread writes one while the event loop makes the next.

All parts are one transaction. Each is written by one statement, which does not need the
interpreter while it runs (see adding_new.py).
"""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator, Sequence

from homing.domain.errors import StoreError
from homing.ports import Added, Existing
from homing.stores.sql.sqlite.adding import AddRequest, NewEntry, add_all
from homing.stores.sql.sqlite.session import Session


class GivenUp(StoreError):
    """A part could not be made: nothing is stored."""


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
            part = self._coming.get()
            if part is None:
                self._has_ended = True
            else:
                self._read.append(part)
                yield part
        if self._is_given_up:
            raise GivenUp("a part of what is to be added could not be made")


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

"""Descriptors that a forked child must not keep: it would hold its dead parent's lock."""

from __future__ import annotations

import contextlib
import os
import weakref

_open: weakref.WeakSet[OwnDescriptor] = weakref.WeakSet()


class OwnDescriptor:
    """Closed at exec, and in every child that Python forks."""

    def __init__(self, number: int) -> None:
        self.number = number
        _open.add(self)

    def close(self) -> None:
        number, self.number = self.number, -1
        if number >= 0:
            with contextlib.suppress(OSError):
                os.close(number)


def _close_all() -> None:
    for descriptor in list(_open):
        descriptor.close()


os.register_at_fork(after_in_child=_close_all)

"""Descriptors that a forked child must not keep: it would hold its dead parent's lock."""

from __future__ import annotations

import contextlib
import os

from homing.runtime import forks


class OwnDescriptor:
    """Closed at exec, and in every child that Python forks."""

    def __init__(self, number: int) -> None:
        self.number = number
        forks.forget_in_child(self)

    def close(self) -> None:
        number, self.number = self.number, -1
        if number >= 0:
            with contextlib.suppress(OSError):
                os.close(number)

    _forget_parent = close

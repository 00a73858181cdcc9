"""What one rendering may cost. Every loop turn, filter, call and operator is charged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct

from homing.content.limits import MIB

_LARGE_CHARS = 4096


class Bounds(Struct, frozen=True, kw_only=True):
    """Steps and characters are the same on every machine; the time is a further limit.

    It is processor time of the thread, so that a suspended machine makes no mail fail.
    """

    output_bytes: int = MIB
    steps: int = 500_000
    working_chars: int = 16 * MIB
    cpu_s: float = 1.0


class TooMuch(Exception):
    """A rendering went over one of its bounds."""


class TooLarge(TooMuch):
    pass


class TooSlow(TooMuch):
    pass


class Budget:
    """Counts down; raises when something is used up."""

    __slots__ = ("_chars_left", "_cpu_s", "_ends_at_s", "_output_left", "_steps_left", "max_chars")

    def __init__(self, bounds: Bounds, cpu_s: Callable[[], float]) -> None:
        self.max_chars = self._output_left = bounds.output_bytes
        self._steps_left = bounds.steps
        self._chars_left = bounds.working_chars
        self._cpu_s = cpu_s
        self._ends_at_s = cpu_s() + bounds.cpu_s

    def step(self) -> None:
        self._steps_left -= 1
        # Reading the clock costs more than most steps.
        if self._steps_left & 31 == 0:
            self.check_time()
        if self._steps_left < 0:
            raise TooSlow

    def check_time(self) -> None:
        if self._cpu_s() > self._ends_at_s:
            raise TooSlow

    def room_for(self, size: int) -> None:
        """Asked before something of this size is made."""
        self._chars_left -= size
        if size > self.max_chars or self._chars_left < 0:
            raise TooLarge
        if size > _LARGE_CHARS:
            self.check_time()

    def output(self, piece: str) -> None:
        """What the mail gets, in bytes; all its parts share one limit."""
        self.step()
        self._output_left -= len(piece) if piece.isascii() else len(piece.encode())
        if self._output_left < 0:
            raise TooLarge

    def charge(self, result: Any) -> Any:
        """One step, and the size of what it made."""
        self.step()
        if isinstance(result, str | list | tuple):
            self.room_for(len(result))
        return result


class MeteredLoop:
    """What a `for` goes over; each turn is a step."""

    def __init__(self, items: Iterable[Any], budget: Budget) -> None:
        self._items = items
        self._budget = budget

    def __iter__(self) -> Iterator[Any]:
        step = self._budget.step
        for item in self._items:
            step()
            yield item

    def __len__(self) -> int:
        return len(self._items)  # type: ignore[arg-type]  # Jinja asks, and takes a TypeError for no

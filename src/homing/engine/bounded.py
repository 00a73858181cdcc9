"""A time limit for steps that costs nothing to those that never wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


async def bounded(work: Coroutine[Any, Any, T], timeout_s: float) -> T:
    """The result of `work`, or TimeoutError once it has waited for too long.

    It is run up to its first wait before a timer is set: a step that ends without waiting (a
    quick handler, a cached answer) would pay more for the timer than for itself.
    """
    try:
        first = work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    async with asyncio.timeout(timeout_s):
        return await _Rest(work, first)


class _Rest(Generic[T]):
    """A coroutine from its first wait on."""

    __slots__ = ("_first", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], first: Any) -> None:
        self._work = work
        self._first = first

    def __await__(self) -> Generator[Any, Any, T]:
        waited_for = self._first
        while True:
            try:
                try:
                    answer = yield waited_for
                except BaseException as error:
                    waited_for = self._work.throw(error)
                else:
                    waited_for = self._work.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result

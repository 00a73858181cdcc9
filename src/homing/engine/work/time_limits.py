"""Time limits for steps: free for a step that never waits, cheap for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class TimeLimits:
    """All limits of one owner share one timer: it is set for the limit that ends first."""

    def __init__(self) -> None:
        # A dict, not a set: those that end at one time end in the order in which they began.
        self._running: dict[_Limit, None] = {}
        self._timer: asyncio.Handle | None = None
        self._rings_at_s = 0.0

    async def bound(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """The result of `work`, or TimeoutError once it has waited for too long.

        It is run up to its first wait before a limit is set: a step that ends without waiting (a
        quick handler, a cached answer) costs less than a limit would.
        """
        try:
            first = work.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        return await self.rest(work, first, timeout_s)

    async def rest(self, work: Coroutine[Any, Any, T], first: object, timeout_s: float) -> T:
        """As `bound`, for work that has been run up to its first wait, which is for `first`."""
        limit = self._start(timeout_s)
        try:
            return await _Rest(work, first)
        except asyncio.CancelledError:
            # There is no other cancellation, so it was the limit.
            if limit.is_over and limit.task.cancelling() - 1 <= limit.cancelled_before:
                raise TimeoutError from None
            raise
        finally:
            self._end(limit)

    def _start(self, timeout_s: float) -> _Limit:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("a time limit needs a task")
        limit = _Limit(task, loop.time() + timeout_s)
        self._running[limit] = None
        if self._timer is None or limit.at_s < self._rings_at_s:
            self._set(loop, limit.at_s)
        return limit

    def _end(self, limit: _Limit) -> None:
        if limit.is_over:
            limit.task.uncancel()  # the task goes on, with no cancellation pending
        self._running.pop(limit, None)
        if not self._running and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, loop: asyncio.AbstractEventLoop, at_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at_s = at_s
        # A limit that is already over does not wait for the timers of others.
        at_once = at_s <= loop.time()
        self._timer = (
            loop.call_soon(self._ring, loop) if at_once else loop.call_at(at_s, self._ring, loop)
        )

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now_s = loop.time()
        for limit in self._running:
            if limit.at_s <= now_s and not limit.is_over:
                limit.is_over = True
                limit.task.cancel()
        waiting = [limit.at_s for limit in self._running if not limit.is_over]
        if waiting:
            self._set(loop, min(waiting))


class _Limit:
    __slots__ = ("at_s", "cancelled_before", "is_over", "task")

    def __init__(self, task: asyncio.Task[Any], at_s: float) -> None:
        self.task = task
        self.at_s = at_s
        self.cancelled_before = task.cancelling()
        self.is_over = False


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

"""Submissions that arrive together share one preparation, one write and one call of observers.

Otherwise 64 concurrent callers would be 64 requests to the store, 64 wake-ups of its thread and
64 calls of every observer. No submission waits for others: a batch is what the event loop has
ready in this turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar

from homing.domain.delivery import New
from homing.domain.errors import StoreError, StoreOutcomeUnknown, StoreUnavailable
from homing.ports import Added, Existing

T = TypeVar("T")
Answer: TypeAlias = tuple[New, Added | Existing]
Batch: TypeAlias = list[tuple[T, "asyncio.Future[Answer]"]]
Tell: TypeAlias = Callable[[Sequence[New]], None]
MAX_BATCH = 256
# More than this is given to an idle store in halves: it may answer the first one, whose callers
# come with their next submissions, while it writes the second. From then on the two take turns.
MIN_HALF = 16
# Each of the batch would meet these alone, too. Any other error may be caused by one of them.
SHARED = (StoreUnavailable, StoreOutcomeUnknown)


class Adder(Protocol):
    """Of a store, all that is needed here."""

    async def add(self, new: Sequence[New]) -> list[Added | Existing]: ...


class AddBatcher(Generic[T]):
    """`prepare` makes new deliveries of what was submitted, or raises if one of them is refused."""

    def __init__(
        self, store: Adder, prepare: Callable[[Sequence[T]], Sequence[New]], tell: Tell
    ) -> None:
        self._store = store
        self._prepare = prepare
        self._tell = tell
        self._waiting: Batch[T] = []
        self._adding: set[asyncio.Task[None]] = set()

    def add(self, submitted: T) -> asyncio.Future[Answer]:
        """As the store's `add` of one. Observers are told before it is answered."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        if not self._waiting:
            # Not a task: an application may start tasks at once, or cancel all that it finds.
            loop.call_soon(self._add_waiting, loop)
        self._waiting.append((submitted, answer))
        return answer

    def _add_waiting(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting, self._waiting = self._waiting, []
        half = max(-(-len(waiting) // 2), MIN_HALF)
        size = MAX_BATCH if self._adding else min(half, MAX_BATCH)
        for start in range(0, len(waiting), size):
            task = loop.create_task(self._add(waiting[start : start + size]))
            self._adding.add(task)
            task.add_done_callback(self._adding.discard)

    async def _add(self, batch: Batch[T]) -> None:
        new, futures = self._prepared(batch)
        if new:
            await self._add_together(new, futures)

    def _prepared(self, batch: Batch[T]) -> tuple[Sequence[New], list[asyncio.Future[Answer]]]:
        """Those that are not refused; the others are told so, each by itself."""
        futures = [future for _, future in batch]
        try:
            return self._prepare([submitted for submitted, _ in batch]), futures
        except Exception as error:
            if len(batch) == 1:
                _refuse(futures, error)
                return [], []
        each = [self._prepared([one]) for one in batch]
        return [one for new, _ in each for one in new], [one for _, some in each for one in some]

    async def _add_together(
        self, new: Sequence[New], futures: Sequence[asyncio.Future[Answer]]
    ) -> None:
        try:
            answers = await self._store.add(new)
        except Exception as error:
            if len(new) == 1 or isinstance(error, SHARED) or not isinstance(error, StoreError):
                _refuse(futures, error)
                return
            for one, future in zip(new, futures, strict=True):
                await self._add_together([one], [future])
            return
        added = [one for one, answer in zip(new, answers, strict=True) if isinstance(answer, Added)]
        if added:
            self._tell(added)
        for future, one, answer in zip(futures, new, answers, strict=True):
            if not future.done():  # else its caller was cancelled
                future.set_result((one, answer))


def _refuse(futures: Sequence[asyncio.Future[Answer]], error: Exception) -> None:
    for future in futures:
        if not future.done():
            # A copy for each caller: an exception collects a trace wherever it is raised.
            copied = type(error)(*error.args) if isinstance(error, StoreError) else error
            future.set_exception(copied)

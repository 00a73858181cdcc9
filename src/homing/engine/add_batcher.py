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
        self._waiting: list[tuple[T, asyncio.Future[Answer]]] = []
        self._writing: set[asyncio.Task[None]] = set()

    async def add(self, submitted: T) -> Answer:
        """As the store's `add` of one. Observers are told before this returns."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._write, loop)
        self._waiting.append((submitted, answer))
        return await answer

    def _write(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting, self._waiting = self._waiting, []
        half = max(-(-len(waiting) // 2), MIN_HALF)
        size = MAX_BATCH if self._writing else min(half, MAX_BATCH)
        for start in range(0, len(waiting), size):
            prepared = self._prepared(waiting[start : start + size])
            if not prepared:
                continue
            task = loop.create_task(self._write_together(prepared))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

    def _prepared(
        self, waiting: Sequence[tuple[T, asyncio.Future[Answer]]]
    ) -> list[tuple[New, asyncio.Future[Answer]]]:
        """Those that are not refused; the others are told so, each by itself."""
        try:
            news = self._prepare([submitted for submitted, _ in waiting])
        except Exception as error:
            if len(waiting) > 1:
                return [done for one in waiting for done in self._prepared([one])]
            _refuse(waiting, error)
            return []
        return [(new, future) for new, (_, future) in zip(news, waiting, strict=True)]

    async def _write_together(self, waiting: Sequence[tuple[New, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._store.add([new for new, _ in waiting])
        except Exception as error:
            if len(waiting) == 1 or isinstance(error, SHARED) or not isinstance(error, StoreError):
                _refuse(waiting, error)
                return
            for one in waiting:
                await self._write_together([one])
            return
        pairs = list(zip(waiting, answers, strict=True))
        added = [new for (new, _), answer in pairs if isinstance(answer, Added)]
        if added:
            self._tell(added)
        for (new, future), answer in pairs:
            if not future.done():  # its caller was cancelled
                future.set_result((new, answer))


def _refuse(waiting: Sequence[tuple[object, asyncio.Future[Answer]]], error: Exception) -> None:
    for _, future in waiting:
        if not future.done():
            # A copy for each caller: an exception collects a trace wherever it is raised.
            copied = type(error)(*error.args) if isinstance(error, StoreError) else error
            future.set_exception(copied)

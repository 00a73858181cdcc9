"""Single submissions of one moment share one durable write and one word to the observers.

64 callers that wait each for their own answer would else be 64 requests to the store, 64 wake-ups
of its thread and 64 calls of every observer. Nobody waits for company: what the event loop has
ready in this turn goes together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from homing.domain.delivery import New
from homing.domain.errors import StoreError, StoreOutcomeUnknown, StoreUnavailable
from homing.ports import Added, Existing

Tell: TypeAlias = Callable[[Sequence[New]], None]
MOST_TOGETHER = 256
# After these none would fare better alone; after the others one may have spoilt it for all.
SHARED = (StoreUnavailable, StoreOutcomeUnknown)


class Adder(Protocol):
    """Of a store, all that is needed here."""

    async def add(self, new: Sequence[New]) -> list[Added | Existing]: ...


class AddBatcher:
    def __init__(self, store: Adder, tell: Tell) -> None:
        self._store = store
        self._tell = tell
        self._waiting: list[tuple[New, asyncio.Future[Added | Existing]]] = []
        self._writing: set[asyncio.Task[None]] = set()

    async def add(self, new: New) -> Added | Existing:
        """As the store's `add` of one. Observers are told before this returns."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Added | Existing] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._write, loop)
        self._waiting.append((new, answer))
        return await answer

    def _write(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), MOST_TOGETHER):
            task = loop.create_task(self._write_together(waiting[start : start + MOST_TOGETHER]))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

    async def _write_together(
        self, waiting: Sequence[tuple[New, asyncio.Future[Added | Existing]]]
    ) -> None:
        try:
            answers = await self._store.add([new for new, _ in waiting])
        except Exception as error:
            if len(waiting) == 1 or isinstance(error, SHARED) or not isinstance(error, StoreError):
                _refuse(waiting, error)
                return
            for one in waiting:
                await self._write_together([one])
            return
        added = [
            new
            for (new, _), answer in zip(waiting, answers, strict=True)
            if isinstance(answer, Added)
        ]
        if added:
            self._tell(added)
        for (_, future), answer in zip(waiting, answers, strict=True):
            if not future.done():  # its caller was cancelled
                future.set_result(answer)


def _refuse(
    waiting: Sequence[tuple[New, asyncio.Future[Added | Existing]]], error: Exception
) -> None:
    for _, future in waiting:
        if not future.done():
            # Each its own: a raised exception collects the trace of whoever raises it.
            copied = type(error)(*error.args) if isinstance(error, StoreError) else error
            future.set_exception(copied)

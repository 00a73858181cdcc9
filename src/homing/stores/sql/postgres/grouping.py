"""Requests that arrive while others are being written share the next statement."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

from homing.domain.errors import StoreCorrupt, StoreLocked, StoreOutcomeUnknown, StoreUnavailable

Request = TypeVar("Request")
Answer = TypeVar("Answer")

LARGEST_GROUP = 4096
# After these errors each request of a group would fail alone, too.
HOPELESS = (StoreUnavailable, StoreOutcomeUnknown, StoreCorrupt)


class Groups(Generic[Request, Answer]):
    """One group at a time. A request that fails does not make the others fail.

    A caller that is cancelled takes nothing back: its request may or may not be stored.
    """

    def __init__(
        self,
        execute: Callable[[Sequence[Request]], Awaitable[Sequence[Answer]]],
        size: Callable[[Request], int],
    ) -> None:
        self._execute = execute
        self._size = size
        self._waiting: deque[tuple[Request, asyncio.Future[Answer]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def submit(self, request: Request) -> Answer:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((request, future))
        if self._running is None:
            self._running = loop.create_task(self._run())
        return await future

    async def finish(self) -> None:
        """Until all that was submitted is answered."""
        if self._running is not None:
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        try:
            while self._waiting:
                group = self._gather()
                await self._answer(group)
        except BaseException:
            # The task was cancelled or its program is being ended: no caller may wait for ever.
            waiting, self._waiting = self._waiting, deque()
            _refuse(waiting, StoreUnavailable("the store was interrupted"))
            raise
        finally:
            self._running = None

    def _gather(self) -> list[tuple[Request, asyncio.Future[Answer]]]:
        group = []
        size = 0
        while self._waiting and size < LARGEST_GROUP:
            group.append(self._waiting.popleft())
            size += self._size(group[-1][0])
        return group

    async def _answer(self, group: list[tuple[Request, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._execute([request for request, _ in group])
        except Exception as error:
            # A lock that another transaction holds stands in the way of one of them.
            is_hopeless = isinstance(error, HOPELESS) and not isinstance(error, StoreLocked)
            if len(group) > 1 and not is_hopeless:
                for one in group:
                    await self._answer([one])
                return
            for one in group:
                _refuse([one], type(error)(*error.args) if len(group) > 1 else error)
            return
        except BaseException:
            _refuse(group, StoreOutcomeUnknown("the write was interrupted"))
            raise
        for (_, future), answer in zip(group, answers, strict=True):
            if not future.done():  # its caller was cancelled
                future.set_result(answer)


def _refuse(group: Iterable[tuple[object, asyncio.Future[Answer]]], error: Exception) -> None:
    for _, future in group:
        if not future.done():
            future.set_exception(error)

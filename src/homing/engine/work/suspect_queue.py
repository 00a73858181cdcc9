"""Suspects that wait for permits outside the slots, so that other work continues."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from homing.engine.work.claimed_work import ClaimedWork
from homing.engine.work.permits import Permits
from homing.engine.work.suspects import permits_for


class SuspectQueue:
    """Suspects of one route that wait for permits; no slot waits with them."""

    def __init__(self, permits: Permits, admit: Callable[[Sequence[ClaimedWork]], None]) -> None:
        self._permits = permits
        self._admit = admit
        self._waiting: deque[ClaimedWork] = deque()
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, works: Sequence[ClaimedWork]) -> None:
        self._waiting.extend(works)
        self._arrived.set()

    def take_all(self) -> list[ClaimedWork]:
        works = list(self._waiting)
        self._waiting.clear()
        return works

    async def run(self) -> None:
        """Admit them as permits become free, until cancelled."""
        while True:
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            await self._admit_some()

    async def _admit_some(self) -> None:
        """The next ones that need as many permits each, once there are some."""
        each = permits_for(self._waiting[0].delivery)
        alike = 0
        while alike < len(self._waiting) and permits_for(self._waiting[alike].delivery) == each:
            alike += 1
        admitted = await self._permits.take(alike, each=each)
        works = [self._waiting.popleft() for _ in range(min(admitted, len(self._waiting)))]
        self._permits.give_back((admitted - len(works)) * each)
        for work in works:
            work.suspect_permits = each
        self._admit(works)

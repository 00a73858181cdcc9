"""Suspects: deliveries whose holder has died. They are tried in ever smaller numbers.

Healthy work goes on beside them. All suspects of a process share some permits; the more deaths a
suspect may have caused, the more of them it needs, and in the end all: then it is tried alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from homing.domain.delivery import Delivery
from homing.domain.transitions import suspicion
from homing.engine.permits import Permits

if TYPE_CHECKING:
    from homing.engine.claimed_work import ClaimedWork

SUSPECT_PERMITS = 16
# After so many deaths in a row, each one needs so many permits: 16 at once, then 4, then alone.
_PERMITS_BY_SUSPICION = (0, 1, 4)


def permits_for(delivery: Delivery) -> int:
    """How many permits of the suspects it needs; 0: it is no suspect."""
    deaths = suspicion(delivery)
    known = deaths < len(_PERMITS_BY_SUSPICION)
    return _PERMITS_BY_SUSPICION[deaths] if known else SUSPECT_PERMITS


def is_tried_alone(delivery: Delivery) -> bool:
    return permits_for(delivery) == SUSPECT_PERMITS


class SuspectQueue:
    """Suspects of one route that wait for permits; no slot waits with them."""

    def __init__(self, permits: Permits, admit: Callable[[Sequence[ClaimedWork]], None]) -> None:
        self._permits = permits
        self._admit = admit
        self._waiting: deque[ClaimedWork] = deque()
        self._arrived = asyncio.Event()

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
            each = permits_for(self._waiting[0].delivery)
            alike = 0
            while alike < len(self._waiting) and (
                permits_for(self._waiting[alike].delivery) == each
            ):
                alike += 1
            admitted = await self._permits.take(alike, each=each)
            works = [self._waiting.popleft() for _ in range(min(admitted, len(self._waiting)))]
            self._permits.give_back((admitted - len(works)) * each)
            for work in works:
                work.suspect_permits = each
            self._admit(works)

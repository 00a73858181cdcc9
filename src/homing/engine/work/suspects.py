"""Suspects: deliveries whose holder has died. Fewer and fewer of them are tried at once.

Other work continues beside them. All suspects of a process share some permits; the more deaths a
suspect may have caused, the more of them it needs, and finally all: then it is tried alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from homing.domain.delivery import Delivery
from homing.domain.transitions import suspicion
from homing.engine.work.claimed_work import ClaimedWork
from homing.engine.work.permits import SUSPECT_PERMITS, RoutePermits

# Permits that a suspect needs, by deaths in a row: 16 suspects at once, then 4, then one alone.
_PERMITS_BY_SUSPICION = (0, 1, 4)


def is_suspect(delivery: Delivery) -> bool:
    """Whether an attempt of it may have killed its holder."""
    return delivery.unsettled_claims > 1 or delivery.interruptions > 0 or delivery.crashes > 0


def permits_for(delivery: Delivery) -> int:
    """How many suspect permits it needs; 0: it is not a suspect."""
    deaths = suspicion(delivery)
    known = deaths < len(_PERMITS_BY_SUSPICION)
    return _PERMITS_BY_SUSPICION[deaths] if known else SUSPECT_PERMITS


def is_tried_alone(delivery: Delivery) -> bool:
    return permits_for(delivery) == SUSPECT_PERMITS


class SuspectQueue:
    """Suspects of one route that wait for permits, while other work of the route starts."""

    def __init__(
        self, permits: RoutePermits, admit: Callable[[Sequence[ClaimedWork]], None]
    ) -> None:
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
            self._admit(await self._next())

    async def _next(self) -> list[ClaimedWork]:
        """The next ones that need as many permits each, once there are some."""
        each = permits_for(self._waiting[0].delivery)
        alike = 0
        while alike < len(self._waiting) and permits_for(self._waiting[alike].delivery) == each:
            alike += 1
        admitted = await self._permits.suspects.take(alike, each=each)
        works = [self._waiting.popleft() for _ in range(min(admitted, len(self._waiting)))]
        self._permits.suspects.give_back((admitted - len(works)) * each)
        for work in works:
            work.suspect_permits = each
        return works

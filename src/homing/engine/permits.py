"""So many at once and no more; whoever needs several takes them in one go."""

from __future__ import annotations

import asyncio
from collections import deque


class Permits:
    """Permits that are taken and given back. Who came first is served first."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self, most: int = 1) -> int:
        """All that are free, `most` at most, once there is one; how many were taken."""
        if self._waiting or not self._free:
            await self._turn()
        taken = min(most, self._free)
        self._free -= taken
        self._call_first()
        return taken

    def give_back(self, number: int = 1) -> None:
        self._free += number
        self._call_first()

    async def _turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.remove(turn)
            self._call_first()
            raise
        # It stood here until now: nobody could take what it was called for.
        self._waiting.popleft()

    def _call_first(self) -> None:
        if self._free and self._waiting and not self._waiting[0].done():
            self._waiting[0].set_result(None)

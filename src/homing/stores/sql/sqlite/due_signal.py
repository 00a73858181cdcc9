"""Tells waiting workers that something may have become due. Used in the event loop only."""

from __future__ import annotations

import asyncio


class DueSignal:
    """A signal since the last wait counts, so that none is missed."""

    def __init__(self) -> None:
        self._told = 0
        self._seen = 0
        self._waiters: set[asyncio.Future[None]] = set()

    def tell(self) -> None:
        self._told += 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def look(self) -> None:
        """The caller is about to look: signals up to now are used up."""
        self._seen = self._told

    async def wait(self, timeout_s: float) -> None:
        if self._seen == self._told:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await asyncio.wait((waiter,), timeout=timeout_s)
            finally:
                self._waiters.discard(waiter)
        self.look()

"""Whether something may have become due, for whoever waits. All in the event loop."""

from __future__ import annotations

import asyncio


class DueSignal:
    """What was told since one last looked counts: nothing is slept through."""

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
        """Whatever was told so far is about to be found."""
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

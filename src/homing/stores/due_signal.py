"""Wakes waiting workers when something may have become due. Used in the event loop only."""

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
            _end(waiter)

    def look(self) -> None:
        """The caller is about to read the store: signals up to now are consumed."""
        self._seen = self._told

    async def wait(self, timeout_s: float) -> None:
        if self._seen == self._told:
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            self._waiters.add(waiter)
            # Not asyncio.wait: that takes two more turns of the loop, before work that is due.
            timer = loop.call_later(timeout_s, _end, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiters.discard(waiter)
        self.look()


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)

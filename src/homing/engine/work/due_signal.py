"""Wakes what waits when something may have become due. Used in the event loop only."""

from __future__ import annotations

import asyncio

from homing.ports import Store

LONGEST_WAIT_S = 30.0


class DueSignal:
    """Counts the moments at which something may have become due.

    Read `moment` before you look for work, and wait for a later one if you find none: no signal
    in between is missed.
    """

    def __init__(self) -> None:
        self.moment = 0
        # In the order in which they came: a set would wake them in any.
        self._waiters: dict[asyncio.Future[None], None] = {}

    def tell(self) -> None:
        self.moment += 1
        for waiter in self._waiters:
            _end(waiter)

    async def after(self, moment: int, timeout_s: float) -> None:
        """Return once `moment` has passed, or after the timeout."""
        if self.moment != moment or timeout_s <= 0:
            return
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiters[waiter] = None
        # Not asyncio.wait: that takes two more turns of the loop, before work that is due.
        timer = loop.call_later(timeout_s, _end, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            del self._waiters[waiter]


class WakeUp(DueSignal):
    """What the store signals, and what the engine itself makes due, for every worker: one task
    waits on the store for all of them, so that none polls or misses a wake-up."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store

    async def listen(self) -> None:
        """Runs for ever beside the workers."""
        while True:
            await self._store.wait(LONGEST_WAIT_S)
            self.tell()


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)

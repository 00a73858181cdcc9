"""One task waits on the store for all workers of a process: none polls or misses a wake-up."""

from __future__ import annotations

import asyncio
import contextlib

from homing.ports import Store

LONGEST_WAIT_S = 30.0


class WakeUp:
    """Counts the times at which something may have become due.

    A worker reads `moment` before it looks for work; if it finds none it waits for a later one.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changed = asyncio.Event()
        self.moment = 0

    async def listen(self) -> None:
        """Runs for ever beside the workers."""
        while True:
            await self._store.wait(LONGEST_WAIT_S)
            self.ring()

    def ring(self) -> None:
        self.moment += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def after(self, moment: int, timeout_s: float) -> None:
        """Return once `moment` has passed, or after the timeout."""
        if self.moment != moment or timeout_s <= 0:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()

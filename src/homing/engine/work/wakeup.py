"""One task waits on the store for all workers of a process: none polls or misses a wake-up."""

from __future__ import annotations

from homing.engine.work.due_signal import DueSignal
from homing.ports import Store

LONGEST_WAIT_S = 30.0


class WakeUp(DueSignal):
    """What the store signals, and what the engine itself makes due, for every worker."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store

    async def listen(self) -> None:
        """Runs for ever beside the workers."""
        while True:
            await self._store.wait(LONGEST_WAIT_S)
            self.tell()

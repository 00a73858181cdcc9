"""What `Store.wait` waits for."""

from __future__ import annotations

from homing.engine.work.due_signal import DueSignal


class StoreSignal(DueSignal):
    """For the one task that waits: it remembers which signals that task, or a claim, has seen."""

    def __init__(self) -> None:
        super().__init__()
        self._seen = 0

    def look(self) -> None:
        """The caller is about to read the store: signals up to now are consumed."""
        self._seen = self.moment

    async def wait(self, timeout_s: float) -> None:
        """Return once there was a signal since the last look or wait, or after the timeout."""
        await self.after(self._seen, timeout_s)
        self.look()

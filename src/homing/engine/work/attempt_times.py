"""How long attempts of a route take. Slow ones are claimed late and tried in short batches."""

from __future__ import annotations

from collections.abc import Sequence

from homing.engine.work.claimed_work import ClaimedWork
from homing.engine.work.inbox import MAX_BATCH
from homing.ports import Clock

# A batch of steps that never wait runs for about this long before other tasks run.
TURN_S = 0.02


class AttemptTimes:
    """`slowest_s` is the longest time, which decays; `batch_length` is right for steps."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # The start of each running attempt, by id.
        self._running: dict[str, float] = {}
        self.slowest_s = 0.0
        self.batch_length = MAX_BATCH

    @property
    def running(self) -> int:
        return len(self._running)

    def began(self, works: Sequence[ClaimedWork]) -> None:
        now_s = self._clock.steady_s()
        for work in works:
            self._running[work.delivery.id] = now_s

    def ended(self, works: Sequence[ClaimedWork]) -> None:
        if not self._running:
            return
        now_s = self._clock.steady_s()
        for work in works:
            began_s = self._running.pop(work.delivery.id, None)
            if began_s is not None:
                self._note(now_s - began_s)

    def note_batch(self, took_s: float, number: int) -> None:
        """Batches of slow steps become shorter, so that none blocks the event loop for long."""
        self._note(took_s / number)
        length = int(TURN_S * number / took_s) if took_s > 0 else MAX_BATCH
        self.batch_length = max(1, min(length, MAX_BATCH))

    def _note(self, took_s: float) -> None:
        self.slowest_s = max(took_s, self.slowest_s * 0.99)

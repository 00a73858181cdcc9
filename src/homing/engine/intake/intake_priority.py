"""Intake has priority over work: callers that wait for an accept are served first.

Intake and workers share one interpreter and one writer. A stored delivery can wait a moment
longer; a caller cannot. Work never stops: workers claim smaller batches, and full batches again
once work has waited for long.
"""

from __future__ import annotations

import asyncio

from homing.ports import Clock

# From this many waiting callers on, intake has priority.
CROWD = 8
PORTION = 64
PORTION_EVERY_S = 0.1
LOOK_AGAIN_S = 0.01
# Work that has waited for this long is claimed in full batches, however many callers wait.
PATIENCE_S = 30.0


class IntakePriority:
    """Intake sets how many callers wait (`waiting`); a worker reads it before it claims."""

    def __init__(self, clock: Clock) -> None:
        self.waiting = 0
        self._clock = clock

    async def portion(self, limit: int, last_at_s: float, lag_s: float) -> int:
        """How many of `limit` to claim now. While many callers wait, it pauses first."""
        if self.waiting < CROWD or lag_s > PATIENCE_S:
            return limit
        next_at_s = last_at_s + PORTION_EVERY_S
        while self.waiting >= CROWD and self._clock.steady_s() < next_at_s:  # noqa: ASYNC110 - callers leave without a word
            await asyncio.sleep(LOOK_AGAIN_S)
        return min(limit, PORTION) if self.waiting >= CROWD else limit

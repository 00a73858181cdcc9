"""Intake before work: who waits to have something accepted is served first.

Both live off one interpreter and one writer. A delivery that is stored can wait a moment longer;
the caller who wants it stored cannot. The work never stops: it is claimed in smaller portions,
and once it waits for long it gives way no more.
"""

from __future__ import annotations

import asyncio

from homing.ports import Clock

# So many callers at once are no longer chance.
CROWD = 8
PORTION = 64
PORTION_EVERY_S = 0.1
LOOK_AGAIN_S = 0.01
# Work that has waited for so long goes on beside the crowd.
PATIENCE_S = 30.0


class IntakePriority:
    """Intake says how many wait (`waiting`); a worker asks before it claims."""

    def __init__(self, clock: Clock) -> None:
        self.waiting = 0
        self._clock = clock

    async def portion(self, limit: int, last_at_s: float, lag_s: float) -> int:
        """How many of `limit` to claim now; while there is a crowd, it is a while until then."""
        if self.waiting < CROWD or lag_s > PATIENCE_S:
            return limit
        next_at_s = last_at_s + PORTION_EVERY_S
        while self.waiting >= CROWD and self._clock.steady_s() < next_at_s:  # noqa: ASYNC110 - callers leave without a word
            await asyncio.sleep(LOOK_AGAIN_S)
        return min(limit, PORTION) if self.waiting >= CROWD else limit

"""A send whose record another program keeps: the way of every send, without a mark and a save."""

from __future__ import annotations

import math
from collections.abc import Sequence

from homing.engine.commit.settling import Ended
from homing.engine.work.claimed_work import ClaimedWork
from homing.engine.work.providers import Providers
from homing.engine.work.send_batch import SendBatch
from homing.engine.work.steps import SendStep


class UnrecordedSend(SendBatch):
    """A batch of one. Its work has the delivery as the attempt leaves it."""

    def __init__(self, step: SendStep, work: ClaimedWork, providers: Providers) -> None:
        super().__init__(step, [work], providers, wait=True)
        work.lease_end_s = math.inf  # no other process can claim it

    async def _mark(self) -> list[ClaimedWork]:
        await self._process.refresh_if_stale()
        return list(self._prepared)

    async def _settle(self, ended: Sequence[Ended]) -> None:
        for work, save in ended:
            work.settled, work.delivery = save.name, save.change.delivery

    async def _clean_up(self) -> None:
        self._take_ended()  # nobody asks for the outcome any more
        await super()._clean_up()

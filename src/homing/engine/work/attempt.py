"""Attempts: claimed work of one plan and stage is tried, as a batch of one or of many."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from homing.domain.errors import StoreError
from homing.engine.process.process import Process
from homing.engine.work.claimed_work import ClaimedWork
from homing.engine.work.send_batch import SendBatch
from homing.engine.work.step_batch import StepBatch
from homing.engine.work.steps import SendStep
from homing.engine.work.time_limits import TimeLimits
from homing.ports import Outcome, Step, Work


class AttemptRunner:
    """Runs attempts for workers and for inline calls alike."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._limits = TimeLimits()

    async def run(self, works: Sequence[ClaimedWork], *, wait: bool = False) -> list[ClaimedWork]:
        """Try each of them once; returns those that were tried, and not put back into the inbox.

        With `wait` the outcomes are durable when this returns. If the store cannot be reached, the
        rest is due again when its leases end; nothing is recorded as sent.
        """
        batch = list(works)
        try:
            await self._try(batch, wait=wait)
        except StoreError as error:
            self.process.health.met(error)
            _end_rest(batch)
        except (Exception, asyncio.CancelledError):
            _end_rest(batch)
            raise
        else:
            _end_rest(batch)
        return batch

    async def _try(self, works: list[ClaimedWork], *, wait: bool) -> None:
        step = works[0].route.steps.get(works[0].stage.name) or _NO_STEP
        if isinstance(step, SendStep):
            await SendBatch(step, works, wait=wait).deliver()
        else:
            await StepBatch(step, works, self._limits, wait=wait).run()

    async def attempt(self, work: ClaimedWork) -> None:
        """An inline call: one attempt, and further stages or retries that may follow at once."""
        while await self._goes_on(work):
            """Still claimed by this call."""

    async def _goes_on(self, work: ClaimedWork) -> bool:
        work.settled = work.is_handled = None
        await self.run((work,), wait=True)
        return not work.is_over


def _end_rest(works: Sequence[ClaimedWork]) -> None:
    """What was lost, or cannot be settled now, is not held any longer."""
    for work in works:
        if work.settled is None:
            work.end()


def _no_step() -> Step:
    async def missing(work: Work) -> Outcome:
        raise LookupError(f"the route has no step for stage {work.delivery.stage!r}")

    return missing


_NO_STEP = _no_step()

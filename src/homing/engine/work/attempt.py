"""Attempts: claimed work of one plan and stage is tried, as a batch of one or of many."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Content, Delivery, New
from homing.domain.errors import StoreError
from homing.domain.failure import Failure
from homing.engine.process.process import Process
from homing.engine.route import Route
from homing.engine.work.claimed_work import ClaimedWork, works_of
from homing.engine.work.permits import ProcessPermits
from homing.engine.work.providers import Providers
from homing.engine.work.send_batch import SendBatch
from homing.engine.work.step_batch import StepBatch
from homing.engine.work.steps import SendStep
from homing.engine.work.time_limits import TimeLimits
from homing.engine.work.unrecorded_send import UnrecordedSend
from homing.ports import Claimed, Outcome, Step, Work


class AttemptRunner:
    """Runs attempts for workers and for inline calls alike."""

    def __init__(self, process: Process, providers: Providers, permits: ProcessPermits) -> None:
        self.process = process
        self.permits = permits
        self._providers = providers
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
            await SendBatch(step, works, self._providers, wait=wait).deliver()
        else:
            await StepBatch(step, works, self._limits, wait=wait).run()

    async def attempt(self, work: ClaimedWork) -> None:
        """An inline call: one attempt, and further stages or retries that may follow at once."""
        while await self._goes_on(work):
            """Still claimed by this call."""

    async def once(self, route: Route, new: New) -> Delivery:
        """Send what another program keeps the record of: nothing is stored here.

        Returns the delivery as the attempt leaves it: delivered, or with its failure.
        """
        process = self.process
        claimed = transitions.accept_claimed(
            new.delivery,
            holder=process.holder,
            phase="worker",
            lease_until_ms=process.lease_until_ms(route),
        )
        held = Claimed(claimed.delivery, Content(new.payload))
        permits = self.permits.of(route)
        [work] = works_of(process, route, permits, [held], process.clock.steady_s())
        step = route.steps.get(work.stage.name)
        if not isinstance(step, SendStep):
            raise TypeError(f"stage {work.stage.name!r} of route {route.name!r} does not send")
        try:
            await UnrecordedSend(step, work, self._providers).deliver()
        finally:
            work.end()
        if work.settled is None:
            failure = Failure(
                "interrupted", detail="not sent: this process was paused for too long"
            )
            return replace(work.delivery, failure=failure)
        return work.delivery

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

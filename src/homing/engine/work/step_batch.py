"""Steps that are called one after the other: handlers, and the stages of jobs that do not send.

A step's coroutine is driven in the caller's own task. One that ends without waiting costs no task,
no future and no timer. One that waits keeps this task (a time limit inside it must cancel the
right one), and the rest of the batch goes to another task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from homing.engine.commit.settling import Ended, hand_over, hand_over_and_wait, settle
from homing.engine.work.claimed_work import ClaimedWork, put_back
from homing.engine.work.function_step import NOTHING_TO_KEEP
from homing.engine.work.handled_before import note_handled, queue_step
from homing.engine.work.outcomes import conclude, conclude_done, timed_out
from homing.engine.work.starting import leave_out_what_may_not_start
from homing.engine.work.time_limits import TimeLimits
from homing.ports import Done, Outcome, Step


class StepBatch:
    """Claimed work of one plan and stage, n >= 1. What is put back leaves the list."""

    def __init__(
        self, step: Step, works: list[ClaimedWork], limits: TimeLimits, *, wait: bool
    ) -> None:
        self._step = step
        self._works = works
        self._limits = limits
        self._wait = wait
        self._owner = works[0].owner
        self._process = works[0].process
        self._returned: list[tuple[ClaimedWork, Done]] = []
        self._ended: list[Ended] = []

    async def run(self) -> None:
        """Returns when each is settled, or put back because an earlier one has to wait."""
        works = await leave_out_what_may_not_start(self._works, wait=self._wait)
        try:
            await self._call_each(works)
            await self._settle()
        except (Exception, asyncio.CancelledError):
            self._conclude_returned()
            self._hand_over()
            raise

    async def _call_each(self, works: Sequence[ClaimedWork]) -> None:
        if not works:
            return
        returned = self._returned
        step = queue_step(self._step, works[0])
        await note_handled(works)
        for place, work in enumerate(works):
            if work.is_handled:
                returned.append((work, NOTHING_TO_KEEP))
                continue
            try:
                call = step(work)
                first = call.send(None)
            except StopIteration as end:
                outcome = end.value
                if outcome.__class__ is Done:
                    returned.append((work, outcome))
                    continue
                has_paused = self._end(work, outcome)
            except BaseException as error:
                has_paused = self._raised(work, error)
            else:
                put_back(works[place + 1 :], self._works)
                await self._settle()
                await self._wait_for(work, call, first)
                await self._settle_waited()
                return
            if has_paused:
                put_back(works[place + 1 :], self._works)
                return

    async def _wait_for(
        self, work: ClaimedWork, call: Coroutine[Any, Any, Outcome], first: object
    ) -> None:
        if self._owner is not None:
            self._owner.began((work,))
        try:
            outcome = await self._limits.rest(call, first, work.stage.timeout_s)
        except BaseException as error:
            self._raised(work, error)
        else:
            self._end(work, outcome)

    def _raised(self, work: ClaimedWork, error: BaseException) -> bool:
        """An unexpected error of the step is a failed attempt; the end of this task is not."""
        if isinstance(error, TimeoutError):
            return self._end(work, timed_out(work.stage, maybe_sent=False))
        if isinstance(error, Exception) or _is_stray_cancel(error):
            return self._end(work, error)
        raise error

    def _end(self, work: ClaimedWork, outcome: Outcome | BaseException) -> bool:
        """Whether the outcome has paused the route: then the rest is not tried."""
        save = conclude(work, outcome)
        self._ended.append((work, save))
        return bool(save.facts)

    async def _settle(self) -> None:
        self._conclude_returned()
        if not self._ended:
            return
        if self._wait:
            ended, self._ended = self._ended, []
            await settle(ended, wait=True)
            return
        self._hand_over()
        if not self._process.saves.has_room:
            await self._process.saves.room()

    async def _settle_waited(self) -> None:
        """A call that has waited keeps its permit until its outcome is stored.

        So at most as many calls as there are permits have begun and are not stored: a kill repeats
        them.
        """
        ended, self._ended = self._ended, []
        if self._wait:
            await settle(ended, wait=True)
        elif ended:
            await hand_over_and_wait(ended)

    def _conclude_returned(self) -> None:
        returned, self._returned = self._returned, []
        if returned:
            now_ms = self._process.clock.now_ms()
            self._ended += [(work, conclude_done(work, done, now_ms)) for work, done in returned]

    def _hand_over(self) -> None:
        """Work that holds permits ends when it is written; other work ends now."""
        ended, self._ended = self._ended, []
        if not ended:
            return
        holding = [work for work, _ in ended if work.has_send_permit or work.suspect_permits]
        if self._owner is None or holding:
            hand_over(ended)
            return
        for work, save in ended:
            work.settled = save.name
            work.delivery = save.change.delivery
        self._process.saves.put_all([save for _, save in ended])
        self._owner.ended([work for work, _ in ended])


def _is_stray_cancel(error: BaseException) -> bool:
    """A step raised a cancellation that was not meant for this task."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and not task.cancelling()

"""Starts the claimed work of a route, in batches, as permits become free."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from homing.domain.failure import TIMED_OUT
from homing.engine.route import Route
from homing.engine.work.attempt import AttemptRunner
from homing.engine.work.claimed_work import ClaimedWork
from homing.engine.work.held_work import HeldWork
from homing.engine.work.inbox import MAX_BATCH, Inbox, batches
from homing.engine.work.send_batch import pack_ahead
from homing.engine.work.suspects import SuspectQueue, is_suspect

log = logging.getLogger("homing.engine")


# A batch of steps that never wait runs for about this long before other tasks run.
TURN_S = 0.02
# Failures that leave open whether a paused route works again.
NO_ANSWER = frozenset({"connect_failed", TIMED_OUT})


class Dispatcher:
    """Each batch runs in a task of its own. Only the task of the next batch waits for permits.

    `slowest_s` is the longest time of an attempt, which decays slowly.
    """

    def __init__(self, route: Route, runner: AttemptRunner, held: HeldWork) -> None:
        self._route = route
        self._runner = runner
        self._clock = runner.process.clock
        self._pausing = runner.process.pausing
        self._permits = runner.permits.of(route)
        self._held = held
        self._inbox = Inbox()
        self._suspects = SuspectQueue(self._permits, self._put_suspects_first)
        # In the order of their starts, so that a run can be repeated.
        self._tasks: dict[asyncio.Task[None], None] = {}
        # The start of each running attempt, by id.
        self._running: dict[str, float] = {}
        self.slowest_s = 0.0
        self._batch_length = MAX_BATCH
        # Whether a batch has left the inbox and waits for permits.
        self._has_next = False
        self._is_started = False
        self._is_closed = False

    def start(self) -> None:
        """Start what is handed out, until `cancel`."""
        if not self._is_started:
            self._is_started = True
            self.spawn(self._dispatch())
            self.spawn(self._suspects.run())

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it in a task that ends with this dispatcher."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def has_more(self) -> bool:
        return bool(self._inbox) or self._has_next

    @property
    def waiting_suspects(self) -> int:
        return len(self._suspects)

    def hand_out(self, works: Sequence[ClaimedWork]) -> None:
        """Each starts when it is its turn; suspects wait for permits beside the others."""
        suspects = [work for work in works if is_suspect(work.delivery)]
        if suspects:
            known = set(suspects)
            works = [work for work in works if work not in known]
            if self._is_started:
                self._suspects.put(suspects)
            else:
                # `run_until_empty` makes one attempt after the other: each is alone.
                for work in suspects:
                    self._inbox.put((work,))
        for batch in batches(works, self._batch_length):
            self._inbox.put(batch)

    def began(self, works: Sequence[ClaimedWork]) -> None:
        now_s = self._clock.steady_s()
        for work in works:
            self._running[work.delivery.id] = now_s

    def put_back(self, works: Sequence[ClaimedWork]) -> None:
        if self._is_closed:
            self._held.give_back(works)
        else:
            self._inbox.put_first(works)

    def ended(self, works: Sequence[ClaimedWork]) -> None:
        if self._running:
            now_s = self._clock.steady_s()
            for work in works:
                began_s = self._running.pop(work.delivery.id, None)
                if began_s is not None:
                    self._note_time(now_s - began_s)
        self._held.forget(works)

    async def run_until_empty(self) -> int:
        """Try all that was handed out, without `start`. Returns the number of attempts."""
        attempted = 0
        while self._inbox:
            batch = await self._with_permits(self._inbox.get_nowait())
            attempted += await self._attempt(batch, wait=True)
        return attempted

    def close(self) -> None:
        """Give back what has not started, and start nothing more."""
        self._is_closed = True
        self._held.give_back([*self._inbox.take_all(), *self._suspects.take_all()])

    async def cancel(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _put_suspects_first(self, works: Sequence[ClaimedWork]) -> None:
        """They hold permits that other suspects wait for."""
        for batch in batches(works):
            self._inbox.put_first(batch)

    async def _dispatch(self) -> None:
        """Run the next batch, once it has permits; another task then does the same."""
        batch: Sequence[ClaimedWork] = ()
        try:
            batch = await self._with_permits(await self._inbox.get())
        except Exception:
            log.exception("a batch of route %s could not start", self._route.name)
        self.spawn(self._dispatch())
        try:
            if batch:
                await self._attempt(batch, wait=False)
        except Exception:
            log.exception("a batch of route %s failed", self._route.name)

    async def _with_permits(self, batch: Sequence[ClaimedWork]) -> Sequence[ClaimedWork]:
        """Those that may start now. The rest goes back to the inbox."""
        self._has_next = True
        try:
            if not batch[0].stage.sends:
                await self._permits.attempts.take()  # one for all, which are called in turn
                return batch
            if self._permits.must_wait(batch):
                await asyncio.sleep(0)  # the marks of the batch before it go to the store first
                pack_ahead(batch)
            taken = await self._permits.take_for_sends(batch)
        finally:
            self._has_next = False
        if taken < len(batch):
            self.put_back(batch[taken:])
        return batch[:taken]

    async def _attempt(self, batch: Sequence[ClaimedWork], *, wait: bool) -> int:
        """Returns the number of attempts. Sends give back their permits themselves."""
        sends = batch[0].stage.sends
        try:
            return await self._try(batch, sends=sends, wait=wait)
        finally:
            if not sends:
                self._permits.attempts.give_back()

    async def _try(self, batch: Sequence[ClaimedWork], *, sends: bool, wait: bool) -> int:
        first, name = batch[0], self._route.name
        if self._is_closed or self._pausing.holds_back(name, is_probe=first.is_probe):
            self._held.give_back(batch)  # it was claimed before the route was paused
            return 0
        began_s = self._clock.steady_s()
        # What a probe has met is known once its outcome is written.
        tried = len(await self._runner.run(batch, wait=wait or first.is_probe))
        if tried > 1 and not sends:
            self._note_batch(self._clock.steady_s() - began_s, tried)
        if first.is_probe and shows_recovery(first):
            await self._pausing.end_fault(name)
        return tried

    def _note_batch(self, took_s: float, number: int) -> None:
        """Batches of slow steps become shorter, so that none blocks the event loop for long."""
        self._note_time(took_s / number)
        length = int(TURN_S * number / took_s) if took_s > 0 else MAX_BATCH
        self._batch_length = max(1, min(length, MAX_BATCH))

    def _note_time(self, took_s: float) -> None:
        self.slowest_s = max(took_s, self.slowest_s * 0.99)


def found_fault(work: ClaimedWork) -> bool:
    """Rather not the next probe: the message that found the fault may itself be the reason."""
    failure = work.delivery.failure
    return failure is not None and failure.disposition == "route_fault"


def shows_recovery(work: ClaimedWork) -> bool:
    """Any answer to a probe but another route fault shows that the route works again.

    A stage before the send asks no provider, so that its outcome shows nothing.
    """
    if not work.stage.sends and any(stage.sends for stage in work.plan.stages):
        return False
    failure = work.delivery.failure
    if work.settled == "fail":
        return not (failure is None or found_fault(work) or failure.error_class in NO_ANSWER)
    return work.settled in ("succeed", "advance", "suppress", "fan_out")

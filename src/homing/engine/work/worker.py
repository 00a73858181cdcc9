"""The worker of one route: claims in batches, runs bounded attempts, stops gracefully."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence

from homing.domain import transitions
from homing.domain.delivery import Delivery
from homing.domain.errors import StoreError
from homing.domain.failure import TIMED_OUT
from homing.engine.commit.settlement import PendingSave
from homing.engine.process.liveness import Liveness
from homing.engine.process.pausing import Pausing
from homing.engine.route import Route
from homing.engine.work.attempt import AttemptRunner
from homing.engine.work.claimed_work import ClaimedWork
from homing.engine.work.due_work import DueWork
from homing.engine.work.handled_before import note_handled
from homing.engine.work.held_work import HeldWork
from homing.engine.work.inbox import MAX_BATCH, Inbox, batches, most_at_once
from homing.engine.work.permits import Permits
from homing.engine.work.send_batch import pack_ahead
from homing.engine.work.suspect_queue import SuspectQueue
from homing.engine.work.suspects import is_suspect
from homing.engine.work.wakeup import WakeUp

log = logging.getLogger("homing.engine")

# How many are claimed beyond the free slots, while steps are short compared with the lease.
READ_AHEAD = 512
# How many one claim takes: the store claims the next ones while these are worked off.
CLAIM_LIMIT = READ_AHEAD // 2
# The content of all held work may take this many bytes.
MAX_HELD_BYTES = 32 * 1024 * 1024
QUICK_SHARE_OF_LEASE = 0.1
MAX_WAITING_SUSPECTS = 4096
STORE_RETRY_S = 1.0
# A claim that is under way at a stop is waited for this long, whatever the grace: otherwise what it
# takes would be held by a process that has ended.
LAST_CLAIM_S = 1.0
# The share of a route's room that a batch of sends waits for: a few slow sends delay no batch.
WORTH_OF_ROOM = 7 / 8
# A batch of steps that never wait runs for about this long before other tasks run.
TURN_S = 0.02
# Failures that leave open whether a paused route works again.
NO_ANSWER = frozenset({"connect_failed", TIMED_OUT})


class RouteWorker:
    """The worker of one route. `holder` names this process in the store."""

    def __init__(
        self,
        route: Route,
        runner: AttemptRunner,
        pausing: Pausing,
        liveness: Liveness,
        wakeup: WakeUp,
        tell_claimed: Callable[[Sequence[Delivery]], None] | None = None,
    ) -> None:
        self.route = route
        self.holder = runner.process.holder
        self._process = runner.process
        self._runner = runner
        self._pausing = pausing
        self._wakeup = wakeup
        self._tell_claimed = tell_claimed
        self._due = DueWork(route, runner.process, liveness)
        self._held = HeldWork(runner.process, route)
        self._inbox = Inbox()
        self._suspects = SuspectQueue(runner.process.suspects, self._put_suspects_first)
        # Limits the attempts of all slots together.
        self._room = Permits(route.most_at_once)
        # The batch of sends that gets the next room: its bytes are made while it waits.
        self._next_sends = asyncio.Lock()
        # The start of each running attempt, by id.
        self._running: dict[str, float] = {}
        self._inline: dict[str, ClaimedWork] = {}
        self._in_background: set[asyncio.Task[None]] = set()
        self._freed = asyncio.Event()
        self._claims_under_way = 0
        self._stopping = False
        self._slots: list[asyncio.Task[None]] = []
        self._slowest_s = 0.0
        self._list_length = MAX_BATCH
        self._last_probe_s = float("-inf")

    async def run(self) -> None:
        """Claim and attempt until stopped; can be called again after an error."""
        if not self.route.concurrency:
            return  # other processes work on this route
        self._start_slots()
        health, claims = self._process.health, f"claims of route {self.route.name}"
        while not self._stopping:
            moment = self._wakeup.moment
            health.asked(claims)
            try:
                idle_s = await self._claim_once()
                health.answered(claims)
            except StoreError as error:
                health.refused(claims, error)
                idle_s = STORE_RETRY_S
            if idle_s > 0:
                await self._wakeup.after(moment, idle_s)
            await self._for_room()

    async def run_until_idle(self) -> int:
        """Attempt all that is due now and wait. Returns the number of attempts."""
        attempted = 0
        while self.route.concurrency:
            await self._claim_once()
            if not self._inbox:
                break
            while self._inbox:
                attempted += await self._work_off(self._inbox.get_nowait(), wait=True)
        return attempted

    @contextlib.contextmanager
    def keeping(self, work: ClaimedWork) -> Iterator[None]:
        """For an inline attempt: while it lasts its lease is renewed, and no slot takes it."""
        self._held.add((work,))
        self._inline[work.delivery.id] = work
        try:
            yield
        finally:
            self._inline.pop(work.delivery.id, None)
            self._held.forget((work,))
            self._freed.set()

    def attempt_in_background(
        self, work: ClaimedWork, kept: contextlib.AbstractContextManager[object]
    ) -> None:
        """The inline attempt goes on without its caller, until it ends or the worker stops."""

        async def go_on() -> None:
            with kept:
                try:
                    await self._runner.attempt(work)
                except asyncio.CancelledError:
                    self._give_back(work)
                    raise

        task = asyncio.get_running_loop().create_task(go_on())
        self._in_background.add(task)
        task.add_done_callback(self._in_background.discard)

    @property
    def held_ids(self) -> frozenset[str]:
        return self._held.ids

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def has_more(self) -> bool:
        return bool(self._inbox) or self._next_sends.locked()

    def began(self, works: Sequence[ClaimedWork]) -> None:
        now_s = self._process.clock.steady_s()
        for work in works:
            self._running[work.delivery.id] = now_s

    def put_back(self, works: Sequence[ClaimedWork]) -> None:
        if self._stopping:
            self._give_back_all(works)
        else:
            self._inbox.put_first(works)

    def ended(self, works: Sequence[ClaimedWork]) -> None:
        if self._running:
            now_s = self._process.clock.steady_s()
            for work in works:
                began_s = self._running.pop(work.delivery.id, None)
                if began_s is not None:
                    self._note_time(now_s - began_s)
        self._held.forget(works)
        self._freed.set()

    async def stop(self, grace_s: float) -> None:
        """Stop claiming, give back what has not started, finish what runs; then end."""
        self._stopping = True
        self._freed.set()
        self._give_back_all([*self._inbox.take_all(), *self._suspects.take_all()])
        ends_at_s = self._process.clock.steady_s() + grace_s
        # What is being claimed right now is given back too.
        await self._until_freed(lambda: not self._claims_under_way, max(grace_s, LAST_CLAIM_S))
        rest_s = ends_at_s - self._process.clock.steady_s()
        await self._until_freed(lambda: not (self._running or self._inline), rest_s)
        await self._until_written()
        # An inline attempt belongs to its caller, unless it runs in the background.
        left = [work for work in self._held.all() if work.delivery.id not in self._inline]
        tasks = [*self._slots, *self._in_background]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._give_back_all(left)
        self._slots.clear()

    async def _until_written(self) -> None:
        """Marks and notes that are on their way have their answers: without them, the version to
        give back is not known."""
        if any(work.is_being_written for work in self._held.all()):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_CLAIM_S):
                    await self._process.saves.drain()
            await asyncio.sleep(0)  # so that their tasks read the answers

    async def _until_freed(self, is_free: Callable[[], bool], timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not is_free():
                    self._freed.clear()
                    await self._freed.wait()

    async def renew_leases(self) -> None:
        await self._held.renew_leases()

    def _start_slots(self) -> None:
        if self._slots:
            return
        loop, name = asyncio.get_running_loop(), self.route.name
        self._slots = [
            loop.create_task(self._slot(), name=f"{name} slot {number}")
            for number in range(self.route.most_at_once)
        ]
        self._slots.append(loop.create_task(self._suspects.run(), name=f"{name} suspects"))

    def _hand_out(self, works: Sequence[ClaimedWork]) -> None:
        if self._stopping:
            self._give_back_all(works)
            return
        suspects = [work for work in works if is_suspect(work.delivery)]
        if suspects:
            if self._slots:
                self._suspects.put(suspects)
            else:
                # Without slots all attempts are made one after the other: each is alone.
                for work in suspects:
                    self._inbox.put((work,))
            known = set(suspects)
            works = [work for work in works if work not in known]
        self._put_in_batches(works)

    def _put_in_batches(self, works: Sequence[ClaimedWork]) -> None:
        for batch in batches(works, self._list_length):
            self._inbox.put(batch)

    def _put_suspects_first(self, works: Sequence[ClaimedWork]) -> None:
        """They hold permits that other suspects wait for."""
        for batch in batches(works):
            self._inbox.put_first(batch)

    async def _slot(self) -> None:
        while True:
            try:
                # In no variable: a slot that waits would keep the contents of its last batch.
                await self._work_off(await self._inbox.get(), wait=False)
            except Exception:
                log.exception("a slot of route %s failed and continues", self.route.name)
            await asyncio.sleep(0)  # other tasks run between two batches

    async def _work_off(self, batch: Sequence[ClaimedWork], *, wait: bool) -> int:
        """Attempt them once there is room. Returns the number of attempts."""
        sends = batch[0].stage.sends
        if sends:
            batch = await self._sends_with_room(batch)
        else:
            await self._room.take()
        try:
            return await self._attempt(batch, sends=sends, wait=wait)
        finally:
            if not sends:
                self._room.give_back()

    async def _sends_with_room(self, batch: Sequence[ClaimedWork]) -> Sequence[ClaimedWork]:
        """Those that have room now. Most of the room is worth waiting for: they share writes."""
        most = min(len(batch), most_at_once(batch[0]))
        worth = min(most, max(int(self.route.most_at_once * WORTH_OF_ROOM), 1))
        async with self._next_sends:
            if self._room.is_short_of(worth):
                await asyncio.sleep(0)  # the marks of the batch before it go to the store first
                pack_ahead(batch)
            taken = await self._room.take(most, worth=worth)
        if taken < len(batch):
            self.put_back(batch[taken:])
        return batch[:taken]

    async def _attempt(self, batch: Sequence[ClaimedWork], *, sends: bool, wait: bool) -> int:
        if sends:
            for work in batch:
                work.room = self._room
        is_probe = batch[0].is_probe
        if self._stopping or self._pausing.holds_back(self.route.name, is_probe):
            self._give_back_all(batch)  # it was claimed before the route was paused
            self._freed.set()
            return 0
        began_s = self._process.clock.steady_s()
        # What a probe has met is known once its outcome is written.
        tried = len(await self._runner.run(batch, wait=wait or is_probe))
        if tried > 1 and not sends:
            self._note_list(self._process.clock.steady_s() - began_s, tried)
        if is_probe:
            await self._after_probe(batch[0])
        return tried

    def _note_list(self, took_s: float, number: int) -> None:
        """Batches of slow steps become shorter, so that none blocks the event loop for long."""
        self._note_time(took_s / number)
        length = int(TURN_S * number / took_s) if took_s > 0 else MAX_BATCH
        self._list_length = max(1, min(length, MAX_BATCH))

    def _note_time(self, took_s: float) -> None:
        # The slowest time, which decays slowly.
        self._slowest_s = max(took_s, self._slowest_s * 0.99)

    async def _after_probe(self, work: ClaimedWork) -> None:
        """On a paused route, any answer but another route fault shows that it works again.

        A stage before the send asks no provider, so that its outcome shows nothing.
        """
        if not work.stage.sends and any(stage.sends for stage in work.plan.stages):
            return
        name, failure = work.settled, work.delivery.failure
        if name == "fail" and (
            failure is None
            or failure.disposition == "route_fault"
            or failure.error_class in NO_ANSWER
        ):
            return
        if name in ("fail", "succeed", "advance", "suppress", "fan_out"):
            await self._pausing.end_fault(self.route.name)

    async def _claim_once(self) -> float:
        """Claim what there is room for; returns how long to wait before the next claim."""
        if self._pausing.is_paused(self.route.name):
            return await self._probe()
        # The delivery that finds a fault is its first probe: the next one comes later.
        self._last_probe_s = self._process.clock.steady_s()
        room = max(min(self._capacity() - self._in_use(), CLAIM_LIMIT), 1)
        self._hand_out(await self._claim(await self._due.portion(room)))
        return await self._due.rest_after_claim_s()

    async def _probe(self) -> float:
        """Try one message from time to time, to see whether the route works again."""
        now_s = self._process.clock.steady_s()
        rest_s = self._last_probe_s + self.route.probe_every_s - now_s
        if not self._pausing.may_probe(self.route.name):
            return self.route.poll_s
        if rest_s > 0:
            return rest_s
        if len(self._held):
            return self.route.probe_every_s
        self._last_probe_s = now_s
        # Rather not the message that found the fault: it may itself be the reason.
        works = sorted(await self._claim(2), key=_found_fault)
        for work in works[:1]:
            work.is_probe = True
            self._inbox.put((work,))
        self._give_back_all(works[1:])
        return self.route.probe_every_s

    async def _claim(self, limit: int) -> list[ClaimedWork]:
        self._claims_under_way += 1
        try:
            free_bytes = max(MAX_HELD_BYTES - self._held.size, 1)
            # A stop that came before this gives nothing back any more.
            works = [] if self._stopping else await self._due.claim(limit, self, free_bytes)
            self._held.add(works)
            if works:
                await self._claimed(works)
            if not self._stopping:
                return works
            self._give_back_all(works)
            return []
        finally:
            self._claims_under_way -= 1
            self._freed.set()

    async def _claimed(self, works: Sequence[ClaimedWork]) -> None:
        with contextlib.suppress(StoreError):  # then each batch asks again
            await note_handled(works)
        if self._tell_claimed is not None:
            self._tell_claimed([work.delivery for work in works])

    def _capacity(self) -> int:
        quick = self._slowest_s < self.route.lease_s * QUICK_SHARE_OF_LEASE
        may_wait = quick and not self.route.plan.interrupted_counts
        return self.route.most_at_once + (READ_AHEAD if may_wait else 0)

    def _in_use(self) -> int:
        """Suspects that wait for permits take no room: healthy work is claimed beside them."""
        # Where an interrupted attempt costs budget, nothing is claimed that has to wait.
        if self.route.plan.interrupted_counts:
            return len(self._held)
        return len(self._held) - min(len(self._suspects), MAX_WAITING_SUSPECTS)

    async def _for_room(self) -> None:
        """Claim again once half of the room is free: few large claims, not many small ones."""
        while not self._stopping and (
            self._in_use() > self._capacity() // 2 or self._held.size > MAX_HELD_BYTES // 2
        ):
            self._freed.clear()
            await self._freed.wait()

    def _give_back_all(self, works: Sequence[ClaimedWork]) -> None:
        for work in works:
            self._give_back(work)

    def _give_back(self, work: ClaimedWork) -> None:
        self._held.forget((work,))
        work.end()
        if work.settled is not None or work.lost:
            return
        if work.delivery.committing and work.delivery.unsettled_claims <= 1:
            return  # after its own mark the outcome is unknown: the next owner looks into it
        change = transitions.release(
            work.delivery,
            plan=work.plan,
            now_ms=self._process.clock.now_ms(),
            roll=self._process.rng.roll(),
        )
        self._process.saves.put(PendingSave("release", change, work.delivery, work.lease_end_s))


def _found_fault(work: ClaimedWork) -> bool:
    failure = work.delivery.failure
    return failure is not None and failure.disposition == "route_fault"

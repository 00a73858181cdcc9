"""The worker of one route: claims in batches, hands them out, stops gracefully."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence

from homing.domain.delivery import Delivery
from homing.domain.errors import StoreError
from homing.engine.commit.group_commit import GroupCommit
from homing.engine.route import Route
from homing.engine.work.attempt import AttemptRunner
from homing.engine.work.claimed_work import ClaimedWork
from homing.engine.work.dispatcher import Dispatcher, found_fault
from homing.engine.work.due_signal import WakeUp
from homing.engine.work.due_work import DueWork
from homing.engine.work.handled_before import note_handled
from homing.engine.work.held_work import HeldWork

# How many are claimed beyond the permits, while steps are short compared with the lease.
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


class RouteWorker:
    """Claims for one route, as much as its dispatcher can start soon."""

    def __init__(
        self,
        route: Route,
        runner: AttemptRunner,
        commits: GroupCommit,
        wakeup: WakeUp,
        tell_claimed: Callable[[Sequence[Delivery]], None] | None = None,
    ) -> None:
        self.route = route
        self._process = runner.process
        self._runner = runner
        self._wakeup = wakeup
        self._tell_claimed = tell_claimed
        self._due = DueWork(route, runner, commits)
        self._held = HeldWork(runner.process, route, commits)
        self._dispatcher = Dispatcher(route, runner, self._held)
        self._inline: dict[str, ClaimedWork] = {}
        self._claims_under_way = 0
        self._stopping = False
        self._last_probe_s = float("-inf")

    async def run(self) -> None:
        """Claim and attempt until stopped; can be called again after an error."""
        if not self.route.concurrency:
            return  # other processes work on this route
        self._dispatcher.start()
        health, claims = self._process.health, f"claims of route {self.route.name}"
        while not self._stopping:
            moment = self._wakeup.moment
            health.asked(claims)
            try:
                idle_s = await self._claim_once(self._hand_out_ahead)
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
            if not self._dispatcher.has_more:
                break
            attempted += await self._dispatcher.run_until_empty()
        return attempted

    @contextlib.contextmanager
    def keeping(self, work: ClaimedWork) -> Iterator[None]:
        """For an inline attempt: while it lasts its lease is renewed, and a stop waits for it."""
        self._held.add((work,))
        self._inline[work.delivery.id] = work
        try:
            yield
        finally:
            self._inline.pop(work.delivery.id, None)
            self._held.forget((work,))

    def attempt_in_background(
        self, work: ClaimedWork, kept: contextlib.AbstractContextManager[object]
    ) -> None:
        """The inline attempt goes on without its caller, until it ends or the worker stops."""

        async def go_on() -> None:
            with kept:
                try:
                    await self._runner.attempt(work)
                except asyncio.CancelledError:
                    self._held.give_back((work,))
                    raise

        self._dispatcher.spawn(go_on())

    @property
    def held_ids(self) -> frozenset[str]:
        return self._held.ids

    @property
    def running(self) -> int:
        return self._dispatcher.running

    async def stop(self, grace_s: float) -> None:
        """Stop claiming, give back what has not started, finish what runs; then end."""
        self._stopping = True
        self._held.freed.set()
        self._dispatcher.close()
        ends_at_s = self._process.clock.steady_s() + grace_s
        # What is being claimed right now is given back too.
        await self._until_freed(lambda: not self._claims_under_way, max(grace_s, LAST_CLAIM_S))
        rest_s = ends_at_s - self._process.clock.steady_s()
        await self._until_freed(lambda: not (self.running or self._inline), rest_s)
        await self._until_written()
        # An inline attempt belongs to its caller, unless it runs in the background.
        left = [work for work in self._held.all() if work.delivery.id not in self._inline]
        await self._dispatcher.cancel()
        self._held.give_back(left)

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
                    self._held.freed.clear()
                    await self._held.freed.wait()

    async def renew_leases(self) -> None:
        await self._held.renew_leases()

    async def _claim_once(
        self, hand_out: Callable[[Sequence[ClaimedWork]], None] | None = None
    ) -> float:
        """Claim what there is room for. Returns how long to wait before the next claim."""
        if self._process.pausing.is_paused(self.route.name):
            return await self._probe()
        # The delivery that finds a fault is its first probe: the next one comes later.
        self._last_probe_s = self._process.clock.steady_s()
        room = max(min(self._capacity() - self._in_use(), CLAIM_LIMIT), 1)
        works = await self._claim(await self._due.portion(room))
        (hand_out or self._dispatcher.hand_out)(works)
        return await self._due.rest_after_claim_s()

    def _hand_out_ahead(self, works: Sequence[ClaimedWork]) -> None:
        """If more is due, the store claims it while these are worked off: they start two turns of
        the event loop later, when that claim has reached the store."""
        if self._due.got_all:
            self._hand_out(works)
        else:
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._hand_out, works)

    def _hand_out(self, works: Sequence[ClaimedWork]) -> None:
        if not self._stopping:  # a stop gives back all that is held
            self._dispatcher.hand_out(works)
            self._held.freed.set()  # suspects that wait take no room

    async def _probe(self) -> float:
        """Try one message from time to time, to see whether the route works again."""
        now_s = self._process.clock.steady_s()
        rest_s = self._last_probe_s + self.route.probe_every_s - now_s
        if not self._process.pausing.may_probe(self.route.name):
            return self.route.poll_s
        if rest_s > 0:
            return rest_s
        if not len(self._held):
            self._last_probe_s = now_s
            works = sorted(await self._claim(2), key=found_fault)
            for work in works[:1]:
                work.is_probe = True
            self._dispatcher.hand_out(works[:1])
            self._held.give_back(works[1:])
        return self.route.probe_every_s

    async def _claim(self, limit: int) -> list[ClaimedWork]:
        self._claims_under_way += 1
        try:
            free_bytes = max(MAX_HELD_BYTES - self._held.size, 1)
            works: list[ClaimedWork] = []
            if not self._stopping:  # a stop gives nothing back any more
                works = await self._due.claim(limit, self._dispatcher, free_bytes)
            self._held.add(works)
            if works:
                await self._claimed(works)
            if not self._stopping:
                return works
            self._held.give_back(works)
            return []
        finally:
            self._claims_under_way -= 1
            self._held.freed.set()

    async def _claimed(self, works: Sequence[ClaimedWork]) -> None:
        with contextlib.suppress(StoreError):  # then each batch asks again
            await note_handled(works)
        if self._tell_claimed is not None:
            self._tell_claimed([work.delivery for work in works])

    def _capacity(self) -> int:
        quick = self._dispatcher.slowest_s < self.route.lease_s * QUICK_SHARE_OF_LEASE
        may_wait = quick and not self.route.plan.interrupted_counts
        return self.route.most_at_once + (READ_AHEAD if may_wait else 0)

    def _in_use(self) -> int:
        """Suspects that wait for permits take no room: healthy work is claimed beside them."""
        # Where an interrupted attempt costs budget, nothing is claimed that has to wait.
        if self.route.plan.interrupted_counts:
            return len(self._held)
        return len(self._held) - min(self._dispatcher.waiting_suspects, MAX_WAITING_SUSPECTS)

    async def _for_room(self) -> None:
        """Claim again once half of the room is free: few large claims, not many small ones."""
        while not self._stopping and (
            self._in_use() > self._capacity() // 2 or self._held.size > MAX_HELD_BYTES // 2
        ):
            self._held.freed.clear()
            await self._held.freed.wait()

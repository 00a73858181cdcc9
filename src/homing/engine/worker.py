"""The worker of one route: claims in batches, runs bounded attempts, stops gracefully."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.errors import StoreError
from homing.engine.attempt import AttemptRunner
from homing.engine.claimed_work import ClaimedWork
from homing.engine.convoy import Convoy
from homing.engine.due_work import DueWork
from homing.engine.liveness import Liveness
from homing.engine.parking import Parking
from homing.engine.permits import Permits
from homing.engine.route import Route
from homing.engine.save_batcher import PendingSave
from homing.engine.steps import SendStep
from homing.engine.wakeup import WakeUp
from homing.ports import Claimed, GroupProvider

log = logging.getLogger("homing.engine")

# Claimed beyond the free slots while steps are quick against the lease.
READ_AHEAD = 256
QUICK_SHARE_OF_LEASE = 0.1
STORE_RETRY_S = 1.0


class RouteWorker:
    """Works off one route. `holder` names this process in the store."""

    def __init__(
        self,
        route: Route,
        attempts: AttemptRunner,
        parking: Parking,
        liveness: Liveness,
        wakeup: WakeUp,
    ) -> None:
        self.route = route
        self.holder = attempts.process.holder
        self._process = attempts.process
        self._attempts = attempts
        self._parking = parking
        self._wakeup = wakeup
        self._due = DueWork(route, attempts, liveness)
        self._inbox: asyncio.Queue[ClaimedWork] = asyncio.Queue()
        self._held: dict[str, ClaimedWork] = {}
        # So many at once and no more, in slots and in groups together.
        self._room = Permits(route.concurrency)
        self._convoy = self._convoy_for(route)
        # Since when, by id.
        self._running: dict[str, float] = {}
        self._inline: set[str] = set()
        self._freed = asyncio.Event()
        self._claiming = asyncio.Lock()
        self._stopping = False
        self._slots: list[asyncio.Task[None]] = []
        self._slowest_s = 0.0
        self._last_probe_s = float("-inf")

    async def run(self) -> None:
        """Claim and attempt until stopped; called again after a surprise, it goes on."""
        if not self.route.concurrency:
            return  # it is worked off elsewhere
        self._start_slots()
        while not self._stopping:
            moment = self._wakeup.moment
            try:
                idle_s = await self._claim_once()
            except StoreError:
                idle_s = STORE_RETRY_S
            if idle_s > 0:
                await self._wakeup.after(moment, idle_s)
            await self._for_room()

    async def run_until_idle(self) -> int:
        """Attempt all that is due now and wait for the outcomes; how many were attempted."""
        attempted = 0
        while self.route.concurrency:
            await self._claim_once()
            if self._inbox.empty():
                break
            while not self._inbox.empty():
                attempted += await self._next(wait=True)
        return attempted

    def take(self, claimed: Claimed) -> None:
        """Work off a delivery that was stored already claimed by this process."""
        now_s = self._process.clock.steady_s()
        held = ClaimedWork(self._attempts, self.route, claimed.delivery, claimed.content, now_s)
        self._held[held.delivery.id] = held
        if self._stopping:
            self._give_back(held)
        else:
            self._hand_out(held)

    @contextlib.contextmanager
    def keeping(self, held: ClaimedWork) -> Iterator[None]:
        """For an inline attempt: while it lasts, its lease is renewed and nobody here takes it."""
        self._held[held.delivery.id] = held
        self._inline.add(held.delivery.id)
        try:
            yield
        finally:
            self._inline.discard(held.delivery.id)
            self._forget(held)
            self._freed.set()

    @property
    def held_ids(self) -> frozenset[str]:
        return frozenset(self._held)

    @property
    def has_room(self) -> bool:
        return (
            bool(self._slots)
            and not self._stopping
            and len(self._held) < self.route.concurrency
            and not self._parking.is_parked(self.route.name)
        )

    async def stop(self, grace_s: float) -> None:
        """Claim no more, give back what has not started, finish what runs; then end."""
        self._stopping = True
        self._freed.set()
        async with self._claiming:  # what is being claimed right now is given back too
            while not self._inbox.empty():
                self._give_back(self._inbox.get_nowait())
            for held in self._convoy.take_back() if self._convoy else ():
                self._give_back(held)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                while self._running or self._inline:
                    self._freed.clear()
                    await self._freed.wait()
        # What runs, and what waits to be alone; an inline attempt is its caller's.
        left = [self._held[delivery_id] for delivery_id in sorted(self._held.keys() - self._inline)]
        for slot in self._slots:
            slot.cancel()
        await asyncio.gather(*self._slots, return_exceptions=True)
        if self._convoy is not None:
            self._convoy.stop()
        for held in left:
            self._give_back(held)
        self._slots.clear()

    async def renew_leases(self) -> None:
        """Longer leases for all that is still in hand; what is lost is told to its holder."""
        now_s = self._process.clock.steady_s()
        aged = [
            held
            for held in self._held.values()
            if held.lease_end_s - now_s < self.route.lease_s * 2 / 3 and not held.is_being_marked
        ]
        if not aged:
            return
        until_ms = self._process.lease_until_ms(self.route)
        asked = [(held.delivery.id, held.delivery.version) for held in aged]
        renewed = await self._process.store.renew(self.holder, asked, until_ms)
        for held, (_, version), kept in zip(aged, asked, renewed, strict=True):
            if kept:
                # Unless it has been written since, lease and all.
                if held.delivery.version == version:
                    held.delivery = replace(held.delivery, due_at_ms=until_ms)
                held.lease_end_s = now_s + self.route.lease_s

    def _start_slots(self) -> None:
        if self._slots:
            return
        loop = asyncio.get_running_loop()
        self._slots = [
            loop.create_task(self._slot(), name=f"{self.route.name} slot {number}")
            for number in range(self.route.concurrency)
        ]
        if self._convoy is not None:
            self._slots.append(
                loop.create_task(self._convoy.run(), name=f"{self.route.name} convoy")
            )

    def _convoy_for(self, route: Route) -> Convoy | None:
        """For the first stage that sends through a provider which takes many at once."""
        for stage, step in route.steps.items():
            if isinstance(step, SendStep) and isinstance(step.provider, GroupProvider):
                return Convoy(
                    stage,
                    step,
                    step.provider,
                    self._attempts,
                    self._room,
                    is_parked=lambda: self._parking.is_parked(route.name),
                    began=self._begin,
                    ended=self._end,
                    turned_away=self._inbox.put_nowait,
                )
        return None

    def _hand_out(self, held: ClaimedWork) -> None:
        """To the slots, or to the convoy while it runs."""
        if self._slots and self._convoy is not None and self._convoy.takes(held):
            self._convoy.put(held)
        else:
            self._inbox.put_nowait(held)

    async def _slot(self) -> None:
        while True:
            try:
                await self._next(wait=False)
            except Exception:
                log.exception("a slot of %s went wrong and goes on", self.route.name)

    async def _next(self, *, wait: bool) -> int:
        """Attempt the next one in the inbox; 0 if it was given back untouched."""
        held = await self._inbox.get()
        if not held.is_probe and self._parking.is_parked(self.route.name):
            self._give_back(held)  # it was read ahead before the route was parked
            self._freed.set()
            return 0
        gate = self._attempts.gate
        if _is_suspect(held):
            async with gate.alone():
                await self._attempt(held, wait=wait)
            return 1
        if not gate.is_open:
            await gate.opened()
        gate.enter()
        try:
            await self._attempt(held, wait=wait)
        finally:
            gate.leave()
        return 1

    async def _attempt(self, held: ClaimedWork, *, wait: bool) -> None:
        await self._room.take()
        self._begin(held)
        try:
            name = await self._attempts.run(held, wait=wait)
            if held.is_probe:
                await self._after_probe(held, name)
        except StoreError:
            pass  # the lease ends by itself; nothing was said to be sent that was not
        finally:
            self._room.give_back()
            self._end(held)

    def _begin(self, held: ClaimedWork) -> None:
        self._running[held.delivery.id] = self._process.clock.steady_s()

    def _end(self, held: ClaimedWork) -> None:
        began_s = self._running.pop(held.delivery.id, None)
        if began_s is not None:
            # Remember the slowest, and forget it slowly.
            took_s = self._process.clock.steady_s() - began_s
            self._slowest_s = max(took_s, self._slowest_s * 0.99)
        self._forget(held)
        self._freed.set()

    async def _after_probe(self, held: ClaimedWork, name: str | None) -> None:
        """On a parked route, anything but another route fault shows that it works again."""
        if name is None:
            return
        failure = held.delivery.failure
        if name == "fail" and (failure is None or failure.disposition == "route_fault"):
            return
        if name in ("fail", "succeed", "advance", "suppress", "fan_out"):
            await self._parking.end_fault(self.route.name)
            self._wakeup.ring()

    async def _claim_once(self) -> float:
        """Claim what there is room for; how long to rest before looking again."""
        if self._parking.is_parked(self.route.name):
            return await self._probe()
        # The delivery that finds a fault is its first probe: the next one comes later.
        self._last_probe_s = self._process.clock.steady_s()
        if (rest_s := await self._due.rest_before_claim_s()) > 0:
            return rest_s
        room = max(self._capacity() - len(self._held), 1)
        for held in await self._claim(await self._due.portion(room)):
            self._hand_out(held)
        return await self._due.rest_after_claim_s()

    async def _probe(self) -> float:
        """One message now and then shows whether the fault of the route is mended."""
        now_s = self._process.clock.steady_s()
        rest_s = self._last_probe_s + self.route.probe_every_s - now_s
        if not self._parking.may_probe(self.route.name):
            return self.route.poll_s
        if rest_s > 0:
            return rest_s
        if self._held:
            return self.route.probe_every_s
        self._last_probe_s = now_s
        for held in await self._claim(1):
            held.is_probe = True
            self._inbox.put_nowait(held)
        return self.route.probe_every_s

    async def _claim(self, limit: int) -> list[ClaimedWork]:
        async with self._claiming:
            claimed = await self._due.claim(limit)
            for held in claimed:
                self._held[held.delivery.id] = held
            if not self._stopping:
                return claimed
            for held in claimed:
                self._give_back(held)
            return []

    def _capacity(self) -> int:
        quick = self._slowest_s < self.route.lease_s * QUICK_SHARE_OF_LEASE
        # Where an interrupted attempt costs budget, nothing is claimed that has to wait.
        may_wait = quick and not self.route.plan.interrupted_counts
        return self.route.concurrency + (READ_AHEAD if may_wait else 0)

    async def _for_room(self) -> None:
        """Claim again once half of the room is free: few large claims, not many small ones."""
        while not self._stopping and len(self._held) > self._capacity() // 2:
            self._freed.clear()
            await self._freed.wait()

    def _forget(self, held: ClaimedWork) -> None:
        # A newer holding of the same delivery may stand in its place.
        if self._held.get(held.delivery.id) is held:
            del self._held[held.delivery.id]

    def _give_back(self, held: ClaimedWork) -> None:
        self._forget(held)
        if held.delivery.committing and held.delivery.unsettled_claims <= 1:
            return  # after its own mark nobody knows: the lease ends and the next owner looks
        change = transitions.release(
            held.delivery,
            plan=self.route.plan_of(held.delivery),
            now_ms=self._process.clock.now_ms(),
            roll=self._process.dice.roll(),
        )
        settlement = PendingSave("release", change, held.delivery, held.lease_end_s)
        self._process.saves.put(settlement)


def _is_suspect(held: ClaimedWork) -> bool:
    """It has, or may have, crashed a process before: it is tried alone."""
    return held.delivery.crashes > 0 or (
        held.delivery.unsettled_claims > 1 and held.delivery.interruption_noted
    )

"""The engine of one process: its parts, connected to the ports, started and stopped together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from homing.domain.delivery import Delivery
from homing.domain.errors import StoreError
from homing.engine.commit.group_commit import GroupCommit
from homing.engine.commit.settlement import PendingSave, Settlement
from homing.engine.intake.admission import Admission
from homing.engine.ops.operations import Operations
from homing.engine.process.alerts import Alerts
from homing.engine.process.counters import FLUSH_EVERY_S
from homing.engine.process.housekeeping import Housekeeping
from homing.engine.process.journal_reader import JournalReader
from homing.engine.process.liveness import LOOK_EVERY_S, Liveness, note_timed_run
from homing.engine.process.notices import notices_of
from homing.engine.process.pausing import KNOWN_WITHIN_S, Pausing
from homing.engine.process.process import Process
from homing.engine.process.store_health import StoreHealth
from homing.engine.route import Route, routes_by_name
from homing.engine.work.attempt import AttemptRunner
from homing.engine.work.due_signal import WakeUp
from homing.engine.work.permits import ProcessPermits
from homing.engine.work.providers import Providers
from homing.engine.work.worker import RouteWorker
from homing.ports import (
    Alarm,
    ClaimObserver,
    Clock,
    Journal,
    Notifier,
    Observer,
    Random,
    SharedOnHost,
    Store,
    Transitioned,
)

log = logging.getLogger("homing.engine")

PURGE_EVERY_S = 60.0
# An alert needs two looks in a row.
LOOK_FOR_UNSERVED_EVERY_S = 6.0
COUNT_FAILED_EVERY_S = 60.0
LOOK_AT_PAUSES_EVERY_S = KNOWN_WITHIN_S / 2
LOOK_FOR_LINES_EVERY_S = 15.0
REVIVE_AFTER_S = 1.0
SHUTDOWN_GRACE_S = 20.0
# After work that has used up the grace, the last writes of a stop still have this long.
LAST_WRITES_S = 1.0


class Engine:
    """Needs a store and routes; `start` runs the workers. `admission` and `ops` need no start."""

    def __init__(  # noqa: PLR0913 - the composition of a process is its ports
        self,
        store: Store,
        routes: Sequence[Route],
        *,
        clock: Clock,
        rng: Random,
        holder: str | None = None,
        journal: Journal | None = None,
        observers: Sequence[Observer] = (),
        notifiers: Sequence[Notifier] = (),
        alarm: Alarm | None = None,
        about: Mapping[str, str | int] | None = None,
        time_scale: float = 1.0,
        known: Sequence[Route] = (),
        take_lines: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        """`known` routes are only read and repaired here: other processes work on them.
        `take_lines` stores what other programs have written into the file of the store."""
        self.store = store
        self.clock = clock
        worked = routes_by_name(routes)
        self.routes = {**{route.name: route for route in known}, **worked}
        self.holder = holder or f"worker-{rng.entropy(6).hex()}"
        self._observers: list[Observer] = []
        self._claim_observers: list[Observer] = []
        for observer in observers:
            self.add_observer(observer)
        self._has_alarm = alarm is not None
        self.wakeup = WakeUp(store)
        self.pausing = Pausing(store, clock, on_end=self.wakeup.tell)
        self.liveness = Liveness(
            store,
            clock,
            self.holder,
            runs_patience_s=max((route.lease_s for route in routes), default=60.0),
            presence=store.presence if isinstance(store, SharedOnHost) else None,
            about=about,
            has_alarm=self._has_alarm,
            time_scale=time_scale,
        )
        self.alerts = Alerts(store, clock, self.pausing, self.liveness, alarm, worked)
        self.health = StoreHealth(store, clock, self.alerts.sound)
        self._commits = commits = GroupCommit(store)
        self.saves = Settlement(
            store,
            commits,
            clock,
            journal,
            tell=self._tell_settled,
            running=self._running,
            met=self.health.met,
        )
        self._providers = Providers(routes, self.alerts.sound_now)
        self.liveness.problems = self._providers.problems
        self.journal = JournalReader(store, clock, journal, self.saves, self.health)
        self.process = Process(
            store,
            clock,
            rng,
            saves=self.saves,
            health=self.health,
            liveness=self.liveness,
            pausing=self.pausing,
            journal=self.journal,
        )
        self.runner = AttemptRunner(self.process, self._providers, ProcessPermits(routes))
        self.ops = Operations(
            self.process, self.pausing, self.liveness, self.routes, self._tell_repaired
        )
        self.housekeeping = Housekeeping(store, clock, worked, self.liveness)
        self.notices = notices_of(notifiers, store, clock, worked)
        self.workers = {route.name: self._worker(route) for route in routes}
        self.admission = Admission(self.runner, commits, self.workers, self._tell_of)
        self._lease_s = min((route.lease_s for route in routes), default=60.0)
        self._tasks: list[asyncio.Task[None]] = []
        self._starting = asyncio.Lock()
        self._is_beating = False
        self._take_lines = take_lines

    def _worker(self, route: Route) -> RouteWorker:
        return RouteWorker(route, self.runner, self._commits, self.wakeup, self._tell_claimed)

    @property
    def _worked_queues(self) -> tuple[str, ...]:
        """The queues that this process serves."""
        worked = (worker.route for worker in self.workers.values())
        return tuple(queue for each in worked if each.concurrency for queue in each.served_queues)

    def _running(self) -> int:
        return sum([worker.running for worker in self.workers.values()])

    @property
    def provider_problems(self) -> Mapping[str, str]:
        """By route, what is wrong with its provider: the last check or send of any process."""
        return {**self.liveness.problems_elsewhere, **self._providers.problems}

    def add_observer(self, observer: Observer) -> None:
        self._observers.append(observer)
        if isinstance(observer, ClaimObserver):
            self._claim_observers.append(observer)

    async def recover(self) -> None:
        """First: store journaled outcomes of the previous run, find the live processes."""
        await self.journal.read_back()
        await self.pausing.refresh()
        await self.liveness.first_beat()

    async def start(self) -> None:
        """Work in the background until stopped."""
        # Not those of `known` routes: work that only they could take must show as unserved.
        self.liveness.queues = self._worked_queues
        await self.recover()
        self._start_beating()
        self._start_looking()
        self._spawn("wake-up", self.wakeup.listen)
        for notices in self.notices:
            self._repeat(f"notices of kind {notices.kind}", notices.give_due, notices.wait)
        purge_every_s = max(PURGE_EVERY_S / self.liveness.time_scale, 1.0)
        self._repeat("retention", self.housekeeping.purge, _rest(purge_every_s), rests_first=True)
        if self._take_lines is not None:
            self._repeat("lines of other programs", self._take_lines, self._until_news)
        for worker in self.workers.values():
            self._spawn(f"worker {worker.route.name}", worker.run)

    async def ensure_beating(self) -> None:
        """Heartbeats for a process that sends inline without a worker."""
        async with self._starting:
            # A first beat alone is not enough: a recovery that failed after it is repeated.
            if not self._is_beating:
                await self.recover()
                self._start_beating()

    async def watch(self) -> None:
        """In a process without workers: know what is paused, and raise alerts if it can."""
        await self.pausing.refresh()
        self._start_looking()

    def _start_beating(self) -> None:
        self._is_beating = True
        self._spawn("providers", self._providers.watch)
        # In a task of its own, so that nothing slow can delay a heartbeat.
        self._repeat("heartbeats", self._beat, self._until_next_beat)
        rest = _rest(self._lease_s / 3)
        self._repeat("leases", self._renew_leases, rest, rests_first=True)

    def _start_looking(self) -> None:
        """Watch processes, paused routes and the store's health, and raise alerts about them."""
        self._spawn("health of the store", self.health.watch)
        self._repeat("housekeeping", self.housekeeping.look_around, _rest(LOOK_EVERY_S))
        self._repeat("paused routes", self._look_at_pauses, self._until_pauses_may_differ)
        rest = _rest(FLUSH_EVERY_S)
        self._repeat("counters", self.process.counters.flush, rest, rests_first=True)
        if self._has_alarm:
            rest = _rest(LOOK_EVERY_S)
            self._repeat("alerts of paused routes", self.alerts.alert_paused_routes, rest)
            rest = _rest(LOOK_FOR_UNSERVED_EVERY_S)
            self._repeat("unserved", self.alerts.alert_unserved, rest, rests_first=True)
            self._repeat("notices of the store", self.alerts.alert_noticed, rest)
            rest = _rest(COUNT_FAILED_EVERY_S)
            self._repeat("dead letters of the week", self.alerts.alert_many_failed, rest)

    async def live_workers(self) -> list[str]:
        """The processes that run workers now, this one included."""
        await self.liveness.look_if_fresh()
        own = [self.holder] if self.liveness.queues and self._tasks else []
        return sorted([*self.liveness.workers, *own])

    async def stop(self, grace_s: float = SHUTDOWN_GRACE_S) -> None:
        """Finish or release claimed work, write all outcomes, remove the heartbeat.

        Outcomes that the store does not accept within the grace period go to the emergency journal.
        The providers of all routes are closed.
        """
        ends_at_s = self.clock.steady_s() + grace_s
        await asyncio.gather(*(worker.stop(grace_s) for worker in self.workers.values()))
        await self.saves.drain(max(ends_at_s - self.clock.steady_s(), LAST_WRITES_S))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        try:
            async with asyncio.timeout(max(ends_at_s - self.clock.steady_s(), LAST_WRITES_S)):
                await self._leave()
        except (StoreError, TimeoutError):
            self.liveness.abandon()
        await self._providers.close()

    async def _leave(self) -> None:
        # A read-back of the journal that was cancelled half way is finished. What the store still
        # refuses stays in the journal for the next start.
        with contextlib.suppress(StoreError):
            await self.journal.read_back_own()
            await self.process.counters.write()
        if self.liveness.has_beaten and not await self.housekeeping.holds_any(self.holder):
            await self.liveness.withdraw()
        else:
            self.liveness.abandon()

    async def run_until_idle(self) -> int:
        """Attempt all that is due now, on every route; for scripts, and tests with own clocks."""
        attempted = 0
        while batch := sum([await w.run_until_idle() for w in self.workers.values()]):
            attempted += batch
        await self.saves.drain()
        await self.give_notices()
        return attempted

    async def take_lines(self) -> int:
        """Adopt what other programs have written into the file of the store.

        Returns the number of lines that became deliveries.
        """
        return 0 if self._take_lines is None else await self._take_lines()

    async def run_once(self) -> int:
        """Attempt all that is due, without `start`, for a timer. Returns the number of attempts."""
        await self.ensure_beating()
        await self.housekeeping.look_around()  # what dead processes held is due at once
        await self.take_lines()
        attempted = await self.run_until_idle()
        await note_timed_run(self.store, self.clock, self._worked_queues)
        return attempted

    async def give_notices(self) -> int:
        """Read all due notices and deliver them; returns how many were accepted."""
        given = sum([await notices.give_all() for notices in self.notices])
        await self.alerts.alert_paused_routes()
        return given

    def _spawn(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        self._tasks.append(
            asyncio.get_running_loop().create_task(self._revive(name, run), name=name)
        )

    async def _revive(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Log a background task that fails, and start it again."""
        while True:
            try:
                await run()
            except Exception:
                log.exception("background task %s failed and starts again", name)
                await asyncio.sleep(REVIVE_AFTER_S)
            else:
                return

    def _repeat(
        self,
        name: str,
        act: Callable[[], Awaitable[object]],
        rest: Callable[[], Awaitable[object]],
        *,
        rests_first: bool = False,
    ) -> None:
        """Act and wait in turn, in a task of its own."""

        async def forever() -> None:
            if rests_first:
                await rest()
            while True:
                try:
                    await act()
                except StoreError as error:
                    self.health.refused(name, error)
                    await asyncio.sleep(REVIVE_AFTER_S)
                    continue
                self.health.answered(name)
                await rest()

        self._spawn(name, forever)

    async def _beat(self) -> None:
        await self.liveness.beat()
        await self.journal.read_back_own()

    async def _until_next_beat(self) -> None:
        await asyncio.sleep(self.liveness.next_beat_in_s)

    async def _look_at_pauses(self) -> None:
        if await self.pausing.refresh():
            self.wakeup.tell()

    async def _until_pauses_may_differ(self) -> None:
        """A commit of another process wakes this one; a person's pause then holds at once."""
        began_s = self.clock.steady_s()
        await self.wakeup.after(self.wakeup.moment, LOOK_AT_PAUSES_EVERY_S)
        # A busy store wakes all the time. An idle one takes one timer a look.
        early_s = LOOK_AT_PAUSES_EVERY_S / 2 - (self.clock.steady_s() - began_s)
        if early_s > 0:
            await asyncio.sleep(early_s)

    async def _until_news(self) -> None:
        await self.wakeup.after(self.wakeup.moment, LOOK_FOR_LINES_EVERY_S)

    def _held_ids(self) -> frozenset[str]:
        return frozenset[str]().union(*(worker.held_ids for worker in self.workers.values()))

    async def _renew_leases(self) -> None:
        for worker in self.workers.values():
            await worker.renew_leases()
        await self.housekeeping.give_back_unknown(self.holder, self._held_ids)

    def _tell_of(self, name: str, deliveries: Sequence[Delivery]) -> None:
        self.process.counters.accepted(deliveries)
        if self._observers and deliveries:
            now_ms = self.clock.now_ms()
            self._tell([Transitioned(name, delivery, None, (), now_ms) for delivery in deliveries])

    def _tell_settled(self, stored: Sequence[PendingSave]) -> None:
        self.process.counters.changed([(each.previous, each.change.delivery) for each in stored])
        if self._observers:
            now_ms = self.clock.now_ms()
            self._tell(
                [
                    Transitioned(s.name, s.change.delivery, s.previous, s.change.ended, now_ms)
                    for s in stored
                ]
            )
        else:
            self._note_notices([settlement.change.delivery for settlement in stored])

    def _note_notices(self, deliveries: Sequence[Delivery]) -> None:
        if [1 for delivery in deliveries if delivery.notices_due]:
            for notices in self.notices:
                notices.note(deliveries)

    def _tell_claimed(self, deliveries: Sequence[Delivery]) -> None:
        if self._claim_observers:
            now_ms = self.clock.now_ms()
            events = [Transitioned("claim", one, None, (), now_ms) for one in deliveries]
            self._tell_each(self._claim_observers, events)

    def _tell_repaired(self, events: Sequence[Transitioned]) -> None:
        new = [event.delivery for event in events if event.previous is None]
        self.process.counters.accepted(new)
        self.process.counters.changed([(e.previous, e.delivery) for e in events if e.previous])
        self._tell(events)

    def _tell(self, events: Sequence[Transitioned]) -> None:
        self._note_notices([event.delivery for event in events])
        self._tell_each(self._observers, events)

    def _tell_each(self, observers: Sequence[Observer], events: Sequence[Transitioned]) -> None:
        for observer in observers:
            try:
                observer.observe(events)
            except Exception:
                log.exception("observer %s failed", type(observer).__name__)


def _rest(rest_s: float) -> Callable[[], Awaitable[None]]:
    async def rest() -> None:
        await asyncio.sleep(rest_s)

    return rest

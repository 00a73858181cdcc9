"""The world of one seed: hosts, services, callers, operators and faults on one shared disk."""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count

from homing.domain.delivery import Change
from homing.engine.route import Route
from homing.ports import Alarm, Notifier, Provider, Store
from tests.simulation.simulator.clients import Clients
from tests.simulation.simulator.connections import connect
from tests.simulation.simulator.fault_schedule import FaultSchedule
from tests.simulation.simulator.faulty_store import (
    FaultyStore,
    FaultyStoreOnHost,
    StoreConditions,
    Watchers,
)
from tests.simulation.simulator.findings import Findings
from tests.simulation.simulator.handler_runs import HandlerRuns
from tests.simulation.simulator.hosts import Host, SimProcess
from tests.simulation.simulator.key_checks import KeyChecks
from tests.simulation.simulator.notice_log import NoticeLog, RecordingAlarm, RecordingNotifier
from tests.simulation.simulator.operators import Operators
from tests.simulation.simulator.options import Options
from tests.simulation.simulator.pauses import Pauses
from tests.simulation.simulator.presence import MachineLocks
from tests.simulation.simulator.random_streams import RandomStreams
from tests.simulation.simulator.recovery_phase import recover
from tests.simulation.simulator.route_kinds import ROUTE_KINDS
from tests.simulation.simulator.routes import UniqueBytes, routes_for
from tests.simulation.simulator.send_checks import SendChecks
from tests.simulation.simulator.service import Service
from tests.simulation.simulator.sqlite_lane import SqliteLane
from tests.simulation.simulator.trace import Trace
from tests.simulation.simulator.watched_disk import WatchedDisk, WatchedStore
from tests.simulation.simulator.write_checks import WriteChecks
from tests.simulation.virtualtime import new_loop


class World:
    """Everything there is. It is also what a new process is given (`hosts.Parts`)."""

    def __init__(self, options: Options, sink: Callable[[str], None] | None = None) -> None:
        self.options = options
        self.seed = options.seed
        self.streams = RandomStreams(options.seed)
        self.loop = new_loop(options.seed)
        self.trace = Trace(self.loop.time, sink)
        self.faults: Counter[str] = Counter()
        # What the run came to see, for those who ask whether it proves what it says.
        self.reached: Counter[str] = Counter()
        self.is_long_stop = False
        self.stopped_short = False
        self.crashed: set[str] = set()
        self.findings = Findings(self.loop.time, self.loop.stop)
        self.disk = WatchedDisk()
        self.pauses = Pauses(options, self.loop, self.findings)
        self.sends = SendChecks(options, self.disk, self.findings, self.loop, self.pauses)
        self.keys = KeyChecks(self.disk, self.findings)
        self.sqlite = SqliteLane(self.disk, self.findings) if options.store == "sqlite" else None
        self._locks = MachineLocks(self._runs)
        self._watchers = Watchers(self.disk, self.trace, self.keys, self.sends, self.reach)
        self.writes = WriteChecks(
            self.disk, self.sends, self.pauses, self.findings, self._process_of
        )
        self.conditions = StoreConditions(options, self.streams.named("store"), self.fault)
        self.notice_log = NoticeLog(
            options.notice_refused, self.streams.named("notices"), self.fault, self.loop.time
        )
        self.disk.watch_facts.append(self.notice_log.noted)
        self.unique_bytes = UniqueBytes()
        self.services = self._services()
        self.handler_runs = HandlerRuns(
            options,
            self.streams.named("work"),
            self.disk,
            self.sends,
            self.findings,
            self.fault,
            self.crash,
        )
        self.hosts = self._hosts()
        self._pick = self.streams.named("pick")
        self.clients = Clients(
            options,
            self.streams.named("clients"),
            self.loop,
            self.disk,
            self.keys,
            self.findings,
            self.any_process,
        )
        self.operators = Operators(
            options,
            self.streams.named("operators"),
            self.loop,
            self.disk,
            self.services,
            self.pauses,
            self.any_process,
        )
        self.fault_schedule = FaultSchedule(self)

    def _services(self) -> dict[str, Service]:
        return {
            name: Service(
                ROUTE_KINDS[name], self.options, self.streams.named(name), self.loop, self.fault
            )
            for name in self.options.routes
            if ROUTE_KINDS[name].carries != "event"
        }

    def _hosts(self) -> list[Host]:
        options = self.options
        hosts = []
        for number in range(options.workers + options.senders):
            machine = number % options.machines
            works = number < options.workers
            name = f"{'w' if works else 's'}{number}"
            host = Host(name, f"boot-{machine}", 5000.0 * machine, works=works, fault=self.fault)
            host.journal.on_append = self._journaled
            hosts.append(host)
        return hosts

    def _journaled(self, changes: Sequence[Change]) -> None:
        for change in changes:
            for attempt in change.ended:
                self.sends.save_was_executed(attempt.holder or "", attempt.delivery_id)

    def fault(self, kind: str) -> None:
        self.faults[kind] += 1

    def reach(self, name: str) -> None:
        self.reached[name] += 1

    def store_of(self, process: SimProcess) -> Store:
        inner: Store = WatchedStore(self.disk)
        if self.sqlite is not None:
            inner = self.sqlite.store_for(process.holder)
        if not self.options.locks:
            return FaultyStore(inner, process, self.conditions, self._watchers)
        return FaultyStoreOnHost(inner, process, self.conditions, self._watchers, self._locks)

    def ended(self, process: SimProcess) -> None:
        if self.sqlite is not None:
            self.sqlite.ended(process.holder)

    def close(self) -> None:
        self.loop.close()
        if self.sqlite is not None:
            self.sqlite.close()

    def notifier_of(self, process: SimProcess) -> Notifier:
        del process
        return RecordingNotifier(self.notice_log)

    def alarm_of(self, process: SimProcess) -> Alarm:
        del process
        return RecordingAlarm(self.notice_log)

    def routes_of(self, process: SimProcess) -> Sequence[Route]:
        providers: dict[str, Provider] = {
            name: connect(service, process, self.sends, self.trace)
            for name, service in self.services.items()
        }
        return routes_for(
            self.options.routes,
            process,
            providers=providers,
            handler_runs=self.handler_runs,
            unique_bytes=self.unique_bytes,
            concurrency=self.options.concurrency,
        )

    def boot(self, host: Host) -> SimProcess:
        """A new process starts on this host."""
        process = SimProcess(host, self)
        self.trace.note(process.holder, "starts")
        process.start(lambda error: self.trace.note(process.holder, "start failed", repr(error)))
        return process

    def crash(self, process: SimProcess) -> None:
        """It ends between two callbacks; somebody starts it again after a while."""
        if not process.is_alive:
            return
        self.fault("crash")
        self.trace.note(process.holder, "crashes")
        self.crashed.add(process.holder)
        process.end()
        self.boot_again(process.host, self._pick.uniform(0.1, 15.0))

    def boot_again(self, host: Host, after_s: float) -> None:
        """Somebody starts it again after a while; at night nobody does."""

        def start() -> None:
            if not self.is_long_stop and (host.process is None or not host.process.is_alive):
                self.boot(host)

        self.loop.call_outside(after_s, start)

    def any_process(self) -> SimProcess | None:
        up = [
            h.process
            for h in self.hosts
            if h.process is not None and h.process.is_alive and h.process.is_up
        ]
        ready = [process for process in up if not process.is_ending]
        return self._pick.choice(ready) if ready else None

    def _runs(self, holder: str) -> bool:
        return any(process.holder == holder for process in self.processes)

    def _process_of(self, holder: str) -> SimProcess | None:
        """The holder, if it is alive and its store has no faults that could hide it."""
        if self.options.has("store", "full"):
            return None
        return next((process for process in self.processes if process.holder == holder), None)

    @property
    def processes(self) -> list[SimProcess]:
        return [h.process for h in self.hosts if h.process is not None and h.process.is_alive]

    async def main(self) -> None:
        for host in self.hosts:
            self.boot(host)
        await self._live_through()
        await recover(self)

    async def _live_through(self) -> None:
        """Callers, operators and faults, each in its time; then the window is over."""
        order = count()
        agenda: list[tuple[float, int, Callable[[], None]]] = []
        for at_s, act in self.fault_schedule.plan():
            heapq.heappush(agenda, (at_s, next(order), act))
        rng = self.streams.named("agenda")
        for _ in range(self.options.clicks):
            at_s = rng.uniform(0.1, 1.0) * self.options.window_s
            heapq.heappush(agenda, (at_s, next(order), self.operators.act))
        pace_s = self.options.window_s * self.clients.usual_call / self.options.deliveries
        at_s = 0.5
        while len(self.clients.asks) < self.options.deliveries and not self.findings.is_full:
            at_s += rng.expovariate(1.0) * pace_s
            while agenda and agenda[0][0] <= at_s:
                when_s, _, act = heapq.heappop(agenda)
                await self._until(when_s)
                act()
            await self._until(at_s)
            self.clients.act()
        while agenda:
            when_s, _, act = heapq.heappop(agenda)
            await self._until(when_s)
            act()
        while not self.fault_schedule.is_over:  # noqa: ASYNC110 - virtual time: nobody waits
            await asyncio.sleep(1.0)

    async def _until(self, at_s: float) -> None:
        if at_s > self.loop.time():
            await asyncio.sleep(at_s - self.loop.time())

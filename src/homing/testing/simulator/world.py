"""The world of one seed: hosts, services, callers, operators and faults on one shared disk."""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count

from homing.engine.route import Route
from homing.ports import Alarm, Notifier, Provider, Store
from homing.testing.simulator.breeds import BREEDS
from homing.testing.simulator.chance import Chance
from homing.testing.simulator.clients import Clients
from homing.testing.simulator.disk import WatchedDisk
from homing.testing.simulator.findings import Findings
from homing.testing.simulator.healing import heal
from homing.testing.simulator.hosts import Host, Life
from homing.testing.simulator.misfortune import Misfortune
from homing.testing.simulator.notices import RecordingAlarm, RecordingNotifier, Told
from homing.testing.simulator.operators import Operators
from homing.testing.simulator.options import Options
from homing.testing.simulator.routes import Freezer, routes_for
from homing.testing.simulator.sending import connect
from homing.testing.simulator.sends import SendWitness
from homing.testing.simulator.service import Service
from homing.testing.simulator.storage import RoughStore, Weather
from homing.testing.simulator.trace import Trace
from homing.testing.simulator.work import Workshop
from homing.testing.simulator.writes import WriteWitness
from homing.testing.virtualtime import new_loop


class World:
    """Everything there is. It is also what a new process is given (`hosts.Parts`)."""

    def __init__(self, options: Options, sink: Callable[[str], None] | None = None) -> None:
        self.options = options
        self.seed = options.seed
        self.chance = Chance(options.seed)
        self.loop = new_loop(options.seed)
        self.trace = Trace(self.loop.time, sink)
        self.faults: Counter[str] = Counter()
        self.is_night = False
        self.crashed: set[str] = set()
        self.findings = Findings(self.loop.time, self.loop.stop)
        self.disk = WatchedDisk()
        self.sends = SendWitness(options, self.disk, self.findings, self.loop)
        self.writes = WriteWitness(self.disk, self.sends, self.findings, self._life_of)
        self.weather = Weather(options, self.chance.stream("store"), self.fault)
        self.told = Told(
            options.notice_refused, self.chance.stream("notices"), self.fault, self.loop.time
        )
        self.disk.watch_facts.append(self.told.noted)
        self.freezer = Freezer()
        self.services = self._services()
        self.workshop = Workshop(
            options,
            self.chance.stream("work"),
            self.disk,
            self.sends,
            self.findings,
            self.fault,
            self.crash,
        )
        self.hosts = self._hosts()
        self._pick = self.chance.stream("pick")
        self.clients = Clients(
            options,
            self.chance.stream("clients"),
            self.loop,
            self.disk,
            self.findings,
            self.any_life,
        )
        self.operators = Operators(
            options,
            self.chance.stream("operators"),
            self.loop,
            self.disk,
            self.services,
            self.any_life,
        )
        self.misfortune = Misfortune(self)

    def _services(self) -> dict[str, Service]:
        return {
            name: Service(
                BREEDS[name], self.options, self.chance.stream(name), self.loop, self.fault
            )
            for name in self.options.breeds
            if BREEDS[name].kind != "event"
        }

    def _hosts(self) -> list[Host]:
        options = self.options
        hosts = []
        for number in range(options.workers + options.senders):
            machine = number % options.machines
            works = number < options.workers
            name = f"{'w' if works else 's'}{number}"
            hosts.append(
                Host(name, f"boot-{machine}", 5000.0 * machine, works=works, fault=self.fault)
            )
        return hosts

    def fault(self, kind: str) -> None:
        self.faults[kind] += 1

    def store_of(self, life: Life) -> Store:
        return RoughStore(self.disk, life, self.weather, self.trace)

    def notifier_of(self, life: Life) -> Notifier:
        del life
        return RecordingNotifier(self.told)

    def alarm_of(self, life: Life) -> Alarm:
        del life
        return RecordingAlarm(self.told)

    def routes_of(self, life: Life) -> Sequence[Route]:
        providers: dict[str, Provider] = {
            name: connect(service, life, self.sends, self.trace)
            for name, service in self.services.items()
        }
        return routes_for(
            self.options.breeds,
            life,
            providers=providers,
            workshop=self.workshop,
            freezer=self.freezer,
            concurrency=self.options.concurrency,
        )

    def boot(self, host: Host) -> Life:
        """A new process starts on this host."""
        life = Life(host, self)
        self.trace.note(life.holder, "starts")
        life.start(lambda error: self.trace.note(life.holder, "start failed", repr(error)))
        return life

    def crash(self, life: Life) -> None:
        """It ends between two callbacks; somebody starts it again after a while."""
        if not life.is_alive:
            return
        self.fault("crash")
        self.trace.note(life.holder, "crashes")
        self.crashed.add(life.holder)
        life.end()
        self.boot_again(life.host, self._pick.uniform(0.1, 15.0))

    def boot_again(self, host: Host, after_s: float) -> None:
        """Somebody starts it again after a while; at night nobody does."""

        def start() -> None:
            if not self.is_night and (host.life is None or not host.life.is_alive):
                self.boot(host)

        self.loop.call_outside(after_s, start)

    def any_life(self) -> Life | None:
        up = [h.life for h in self.hosts if h.life is not None and h.life.is_alive and h.life.is_up]
        ready = [life for life in up if not life.is_ending]
        return self._pick.choice(ready) if ready else None

    def _life_of(self, holder: str) -> Life | None:
        """The holder, if it is alive and its store has no faults that could hide it."""
        if self.options.has("store", "full"):
            return None
        return next((life for life in self.lives if life.holder == holder), None)

    @property
    def lives(self) -> list[Life]:
        return [h.life for h in self.hosts if h.life is not None and h.life.is_alive]

    async def main(self) -> None:
        for host in self.hosts:
            self.boot(host)
        await self._live_through()
        await heal(self)

    async def _live_through(self) -> None:
        """Callers, operators and faults, each in its time; then the window is over."""
        order = count()
        agenda: list[tuple[float, int, Callable[[], None]]] = []
        for at_s, act in self.misfortune.plan():
            heapq.heappush(agenda, (at_s, next(order), act))
        chance = self.chance.stream("agenda")
        for _ in range(self.options.clicks):
            at_s = chance.uniform(0.1, 1.0) * self.options.window_s
            heapq.heappush(agenda, (at_s, next(order), self.operators.act))
        pace_s = self.options.window_s * self.clients.usual_call / self.options.deliveries
        at_s = 0.5
        while len(self.clients.asks) < self.options.deliveries and not self.findings.is_full:
            at_s += chance.expovariate(1.0) * pace_s
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
        while not self.misfortune.is_over:  # noqa: ASYNC110 - virtual time: nobody waits
            await asyncio.sleep(1.0)

    async def _until(self, at_s: float) -> None:
        if at_s > self.loop.time():
            await asyncio.sleep(at_s - self.loop.time())

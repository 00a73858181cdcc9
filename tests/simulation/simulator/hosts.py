"""Hosts and the processes that live on them: each process ends by a stop, a crash, or the night.

What belongs to the host outlives a crash: its wall clock and how wrong it is, its emergency
journal. A process has a holder's name of its own; callbacks of a process that has ended never run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from homing.domain.delivery import Change
from homing.engine.process.engine import Engine
from homing.testing.random_numbers import SeededRandom
from tests.simulation.actors import Actor
from tests.simulation.virtualtime import VirtualTimeLoop

if TYPE_CHECKING:
    from homing.engine.route import Route
    from homing.ports import Alarm, Notifier, Store

EPOCH_MS = 1_700_000_000_000
START_AGAIN_S = 1.0


class KeptJournal:
    """The host's emergency journal: durable, even when the disk of the store is full."""

    damage: str | None = None

    def __init__(self, fault: Callable[[str], None]) -> None:
        self._fault = fault
        self.on_append: Callable[[Sequence[Change]], None] = lambda _changes: None
        self.kept: list[Change] = []
        # Everything that was ever kept, for the oracle alone.
        self.history: list[Change] = []

    async def append(self, changes: Sequence[Change]) -> None:
        self._fault("journaled")
        self.on_append(changes)
        self.kept.extend(changes)
        self.history.extend(changes)

    async def entries(self) -> list[Change]:
        return list(self.kept)

    async def clear(self) -> None:
        self.kept.clear()


class Host:
    """A place where one process at a time processes."""

    def __init__(
        self,
        name: str,
        boot: str,
        steady_base_s: float,
        *,
        works: bool,
        fault: Callable[[str], None],
    ) -> None:
        self.name = name
        self.boot = boot
        self.steady_base_s = steady_base_s
        self.works = works
        self.wall_offset_ms = 0
        self.journal = KeptJournal(fault)
        self.process: SimProcess | None = None
        self.starts = 0


class HostClock:
    """The host's view of time: its own wall, and a steady clock shared by its boot."""

    def __init__(self, loop: VirtualTimeLoop, host: Host) -> None:
        self._loop = loop
        self._host = host

    def now_ms(self) -> int:
        return EPOCH_MS + self._host.wall_offset_ms + int(self._loop.now_s * 1000)

    def steady_s(self) -> float:
        return self._host.steady_base_s + self._loop.now_s

    @property
    def boot(self) -> str:
        return self._host.boot


class Parts(Protocol):
    """What a new process is given by the world."""

    loop: VirtualTimeLoop
    seed: int

    def store_of(self, process: SimProcess) -> Store: ...

    def routes_of(self, process: SimProcess) -> Sequence[Route]: ...

    def notifier_of(self, process: SimProcess) -> Notifier: ...

    def alarm_of(self, process: SimProcess) -> Alarm: ...

    def ended(self, process: SimProcess) -> None: ...


class SimProcess:
    """One process, from its start to its end."""

    def __init__(self, host: Host, parts: Parts) -> None:
        host.starts += 1
        host.process = self
        self.host = host
        self.holder = f"{host.name}.{host.starts}"
        self.loop = parts.loop
        self.actor: Actor = parts.loop.new_actor(self.holder)
        self.clock = HostClock(parts.loop, host)
        self.is_up = False
        self.is_ending = False
        self.was_frozen = False
        self.known_since_s: float | None = None
        self.calls = 0
        # What a write has given to it and it has not heard of yet.
        self.unanswered: set[str] = set()
        self._parts = parts
        self.engine: Engine | None = None

    @property
    def is_alive(self) -> bool:
        return self.actor.is_alive

    def start(self, told: Callable[[Exception], None]) -> None:
        """What is wrong with its routes ends the simulation; other errors are `told`."""
        parts = self._parts
        self.engine = Engine(
            parts.store_of(self),
            parts.routes_of(self),
            clock=self.clock,
            rng=SeededRandom(f"{parts.seed} {self.holder}"),
            holder=self.holder,
            journal=self.host.journal,
            notifiers=(parts.notifier_of(self),),
            alarm=parts.alarm_of(self),
        )
        self.loop.spawn(self.actor, self._start(self.engine, told), "start")

    async def _start(self, engine: Engine, told: Callable[[Exception], None]) -> None:
        while True:
            try:
                if self.host.works:
                    await engine.start()
                else:
                    await engine.watch()
            except Exception as error:
                told(error)
                await asyncio.sleep(START_AGAIN_S)
            else:
                self.is_up = True
                if self.host.works:
                    self.become_known()
                return

    def become_known(self) -> None:
        """From now on others can know that it is alive."""
        if self.known_since_s is None:
            self.known_since_s = self.loop.now_s

    def end(self) -> None:
        """Killed: nothing of it runs again."""
        self.is_up = False
        self.loop.kill(self.actor)
        self._parts.ended(self)

"""What befalls processes, clocks, disks and services, each at its drawn time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from homing.ports import Query
from homing.testing.clocks import DAY_S
from tests.simulation.simulator.hosts import SimProcess
from tests.simulation.simulator.send_checks import MOMENTS, Moment

if TYPE_CHECKING:
    from tests.simulation.simulator.world import World

# A lease is 35 s in these worlds: shorter, about as long, and much longer.
FREEZE_S = (2.0, 120.0)
FULL_S = (10.0, 110.0)
OUTAGE_S = (5.0, 60.0)
PAUSE_S = (10.0, 60.0)
LONGEST_COUNTDOWN = 300
SHORTEST_COUNTDOWN = 6
JUMPS_S = (DAY_S, -DAY_S, DAY_S, -DAY_S, 3600.0, -3600.0, 40.0, -40.0)
GRACE_S = 20.0
# How long a stop lets running work go on: not at all, too short for a slow send, or long enough.
GRACES_S = (0.0, 1.0, GRACE_S)


class FaultSchedule:
    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.streams.named("fault_schedule")
        # At which moment of a process its countdown becomes short.
        self._armed_for: dict[str, Moment] = {}
        world.sends.on_moment = self._at_moment

    def plan(self) -> list[tuple[float, Callable[[], None]]]:
        """When what happens, over the whole window."""
        options = self._world.options
        numbers: tuple[tuple[int, Callable[[], None]], ...] = (
            (options.crashes, self._crash),
            (options.freezes, self._freeze),
            (options.deploys, self._deploy),
            (options.jumps, self._jump),
            (options.full_periods, self._fill_the_disk),
            (options.outages, self._start_outage),
            (options.pauses, self._pause),
        )
        return [
            (self._rng.uniform(0.05, 0.95) * options.window_s, self._when_busy(act))
            for number, act in numbers
            for _ in range(number)
        ]

    def _when_busy(self, act: Callable[[], None]) -> Callable[[], None]:
        """FaultSchedule finds the most to break while there is work under way."""

        def both() -> None:
            self._world.clients.act()
            act()

        return both

    def _victim(self) -> SimProcess | None:
        processes = [
            process for process in self._world.processes if process.actor.countdown is None
        ]
        processes = [process for process in processes if not process.actor.is_frozen]
        return self._rng.choice(processes) if processes else None

    def _arm(self, process: SimProcess, act: Callable[[], None]) -> None:
        """Some callbacks from now, or at a moment that matters: any `await` may be its last."""
        process.actor.on_countdown = act
        process.actor.countdown = LONGEST_COUNTDOWN
        if self._rng.random() < 0.5:
            process.actor.countdown = round(LONGEST_COUNTDOWN ** self._rng.random())
        else:
            self._armed_for[process.holder] = self._rng.choice(MOMENTS)

    def _at_moment(self, moment: Moment, process: SimProcess) -> None:
        if self._armed_for.get(process.holder) == moment:
            del self._armed_for[process.holder]
            if process.actor.countdown is not None:
                process.actor.countdown = min(
                    process.actor.countdown, self._rng.randint(1, SHORTEST_COUNTDOWN)
                )

    def _crash(self) -> None:
        process = self._victim()
        if process is not None:
            self._arm(process, lambda: self._world.crash(process))

    def _freeze(self) -> None:
        """A zombie in the making: stopped, perhaps for longer than its lease, then thawed."""
        process = self._victim()
        if process is None:
            return
        world = self._world

        def freeze() -> None:
            world.fault("freeze")
            for_s = self._rng.uniform(*FREEZE_S)
            world.trace.note(process.holder, "freezes", for_s)
            world.loop.freeze(process.actor)
            process.was_frozen = True
            world.loop.call_outside(for_s, thaw)

        def thaw() -> None:
            world.trace.note(process.holder, "thaws")
            world.loop.thaw(process.actor)

        self._arm(process, freeze)

    @property
    def is_over(self) -> bool:
        """Nobody is frozen and the disk has room: what follows can only be healing."""
        frozen = any(process.actor.is_frozen for process in self._world.processes)
        return not frozen and not self._world.conditions.is_full

    def _deploy(self) -> None:
        """A graceful stop, and a new process."""
        process = self._victim()
        if process is None:
            return

        def stop() -> None:
            if process.is_up and not process.is_ending:
                self._world.fault("deploy")
                grace_s = self._rng.choice(GRACES_S)
                self._world.stopped_short |= grace_s < GRACE_S
                self._world.loop.spawn(process.actor, self.stop(process, grace_s=grace_s), "stop")

        self._arm(process, stop)

    async def stop(
        self, process: SimProcess, *, again: bool = True, grace_s: float = GRACE_S
    ) -> None:
        """As a server does: no new calls, the running ones end, then the engine stops."""
        world = self._world
        process.is_ending = True
        world.trace.note(process.holder, "stops")
        patience_s = GRACE_S
        while process.calls and patience_s > 0:
            await asyncio.sleep(0.01)
            patience_s -= 0.01
        if process.engine is not None:
            try:
                await process.engine.stop(grace_s)
            except Exception as error:
                world.trace.note(process.holder, "stop failed", repr(error))
            else:
                self._check_hands(process)
        world.trace.note(process.holder, "stopped")
        if again:
            world.boot_again(process.host, self._rng.uniform(0.1, 5.0))
        process.end()

    def _check_hands(self, process: SimProcess) -> None:
        """Whoever stopped gracefully holds nothing any more, but for a send in doubt."""
        world = self._world
        if world.options.has("store", "full"):
            return
        for delivery in world.disk.candidates(Query(holder=process.holder)):
            if delivery.state == "in_flight" and not delivery.committing:
                world.findings.breach("I16", delivery.id, f"{process.holder} stopped and keeps it")

    def _jump(self) -> None:
        host = self._rng.choice(self._world.hosts)
        jump_s = self._rng.choice(JUMPS_S)
        if self._rng.random() < 0.3:
            jump_s = -host.wall_offset_ms / 1000
        host.wall_offset_ms += int(jump_s * 1000)
        self._world.fault("clock_jump")
        self._world.trace.note(host.name, "jumps", jump_s, host.wall_offset_ms)

    def _fill_the_disk(self) -> None:
        """In the middle of what a process does: perhaps between a send and its mark."""
        world = self._world
        for_s = self._rng.uniform(*FULL_S)

        def fill() -> None:
            world.conditions.is_full = True
            world.trace.note("disk", "is full", for_s)
            world.loop.call_outside(for_s, empty)

        def empty() -> None:
            world.conditions.is_full = False
            world.trace.note("disk", "has room")

        process = self._victim()
        if process is not None:
            self._arm(process, fill)

    def _pause(self) -> None:
        """A person pauses a route; faults may pause it too, and their probes must not end it."""
        route = self._rng.choice(self._world.options.routes)
        self._world.fault("person_pauses")
        self._world.operators.pause_for(route, self._rng.uniform(*PAUSE_S))

    def _start_outage(self) -> None:
        services = list(self._world.services.items())
        if not services:
            return
        name, service = self._rng.choice(services)
        service.has_bad_credentials = True
        self._world.fault("outage")
        self._world.trace.note(name, "outage")

        def repair() -> None:
            service.has_bad_credentials = False
            self._world.trace.note(name, "mended")

        self._world.loop.call_outside(self._rng.uniform(*OUTAGE_S), repair)

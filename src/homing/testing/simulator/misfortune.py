"""What befalls processes, clocks, disks and services, each at its drawn time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from homing.testing.clocks import DAY_S
from homing.testing.simulator.hosts import Life

if TYPE_CHECKING:
    from homing.testing.simulator.world import World

# A lease is 35 s in these worlds: shorter, about as long, and much longer.
FREEZE_S = (2.0, 120.0)
FULL_S = (5.0, 90.0)
OUTAGE_S = (5.0, 60.0)
LONGEST_FUSE = 300
JUMPS_S = (DAY_S, -DAY_S, DAY_S, -DAY_S, 3600.0, -3600.0, 40.0, -40.0)
GRACE_S = 20.0


class Misfortune:
    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance.stream("misfortune")

    def plan(self) -> list[tuple[float, Callable[[], None]]]:
        """When what happens, over the whole window."""
        options = self._world.options
        numbers: tuple[tuple[int, Callable[[], None]], ...] = (
            (options.crashes, self._crash),
            (options.freezes, self._freeze),
            (options.deploys, self._deploy),
            (options.jumps, self._jump),
            (options.full_periods, self._fill_the_disk),
            (options.outages, self._lose_the_password),
        )
        return [
            (self._chance.uniform(0.05, 0.95) * options.window_s, act)
            for number, act in numbers
            for _ in range(number)
        ]

    def _victim(self) -> Life | None:
        lives = [life for life in self._world.lives if life.party.fuse is None]
        lives = [life for life in lives if not life.party.is_frozen]
        return self._chance.choice(lives) if lives else None

    def _light(self, life: Life, act: Callable[[], None]) -> None:
        """Some callbacks from now: any `await` may be the last one."""
        life.party.on_fuse = act
        life.party.fuse = self._chance.randint(1, LONGEST_FUSE)

    def _crash(self) -> None:
        life = self._victim()
        if life is not None:
            self._light(life, lambda: self._world.crash(life))

    def _freeze(self) -> None:
        """A zombie in the making: stopped, perhaps for longer than its lease, then thawed."""
        life = self._victim()
        if life is None:
            return
        world = self._world

        def freeze() -> None:
            world.fault("freeze")
            for_s = self._chance.uniform(*FREEZE_S)
            world.trace.note(life.holder, "freezes", for_s)
            world.loop.freeze(life.party)
            world.loop.call_outside(for_s, thaw)

        def thaw() -> None:
            world.trace.note(life.holder, "thaws")
            world.loop.thaw(life.party)

        self._light(life, freeze)

    def _deploy(self) -> None:
        """A graceful stop, and a new life."""
        life = self._victim()
        if life is not None and life.is_up and not life.is_ending:
            self._world.fault("deploy")
            self._world.loop.spawn(life.party, self.stop(life), "stop")

    async def stop(self, life: Life, *, again: bool = True) -> None:
        """As `app.Homing.stop` does."""
        world = self._world
        life.is_ending = True
        world.trace.note(life.holder, "stops")
        if life.engine is not None:
            try:
                await life.engine.stop(GRACE_S)
            except Exception as error:
                world.trace.note(life.holder, "stop failed", repr(error))
        world.trace.note(life.holder, "stopped")
        if again:
            world.boot_again(life.host, self._chance.uniform(0.1, 5.0))
        life.end()

    def _jump(self) -> None:
        host = self._chance.choice(self._world.hosts)
        jump_s = self._chance.choice(JUMPS_S)
        if self._chance.random() < 0.3:
            jump_s = -host.wall_offset_ms / 1000
        host.wall_offset_ms += int(jump_s * 1000)
        self._world.fault("clock_jump")
        self._world.trace.note(host.name, "jumps", jump_s, host.wall_offset_ms)

    def _fill_the_disk(self) -> None:
        weather = self._world.weather
        for_s = self._chance.uniform(*FULL_S)
        weather.is_full = True
        self._world.trace.note("disk", "is full", for_s)

        def empty() -> None:
            weather.is_full = False
            self._world.trace.note("disk", "has room")

        self._world.loop.call_outside(for_s, empty)

    def _lose_the_password(self) -> None:
        services = list(self._world.services.items())
        if not services:
            return
        name, service = self._chance.choice(services)
        service.has_bad_credentials = True
        self._world.fault("outage")
        self._world.trace.note(name, "outage")

        def mend() -> None:
            service.has_bad_credentials = False
            self._world.trace.note(name, "mended")

        self._world.loop.call_outside(self._chance.uniform(*OUTAGE_S), mend)

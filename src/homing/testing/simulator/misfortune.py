"""What befalls processes, clocks, disks and services, each at its drawn time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from homing.ports import Query
from homing.testing.clocks import DAY_S
from homing.testing.simulator.hosts import Life

if TYPE_CHECKING:
    from homing.testing.simulator.world import World

# A lease is 35 s in these worlds: shorter, about as long, and much longer.
FREEZE_S = (2.0, 120.0)
FULL_S = (10.0, 110.0)
OUTAGE_S = (5.0, 60.0)
LONGEST_FUSE = 300
SHORTEST_FUSE = 6
JUMPS_S = (DAY_S, -DAY_S, DAY_S, -DAY_S, 3600.0, -3600.0, 40.0, -40.0)
GRACE_S = 20.0


class Misfortune:
    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance.stream("misfortune")
        # Whom it waits for at the next send.
        self._lurking: set[str] = set()
        world.sends.on_commit = self._sends

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
            (self._chance.uniform(0.05, 0.95) * options.window_s, self._when_busy(act))
            for number, act in numbers
            for _ in range(number)
        ]

    def _when_busy(self, act: Callable[[], None]) -> Callable[[], None]:
        """Misfortune finds the most to break while there is work under way."""

        def both() -> None:
            self._world.clients.act()
            act()

        return both

    def _victim(self) -> Life | None:
        lives = [life for life in self._world.lives if life.party.fuse is None]
        lives = [life for life in lives if not life.party.is_frozen]
        return self._chance.choice(lives) if lives else None

    def _light(self, life: Life, act: Callable[[], None]) -> None:
        """Some callbacks from now, or right after its next send: any `await` may be the last."""
        life.party.on_fuse = act
        life.party.fuse = LONGEST_FUSE
        if self._chance.random() < 0.5:
            life.party.fuse = round(LONGEST_FUSE ** self._chance.random())
        else:
            self._lurking.add(life.holder)

    def _sends(self, life: Life) -> None:
        if life.holder in self._lurking:
            self._lurking.discard(life.holder)
            if life.party.fuse is not None:
                life.party.fuse = min(life.party.fuse, self._chance.randint(1, SHORTEST_FUSE))

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
            life.was_frozen = True
            world.loop.call_outside(for_s, thaw)

        def thaw() -> None:
            world.trace.note(life.holder, "thaws")
            world.loop.thaw(life.party)

        self._light(life, freeze)

    @property
    def is_over(self) -> bool:
        """Nobody is frozen and the disk has room: what follows can only be healing."""
        frozen = any(life.party.is_frozen for life in self._world.lives)
        return not frozen and not self._world.weather.is_full

    def _deploy(self) -> None:
        """A graceful stop, and a new life."""
        life = self._victim()
        if life is None:
            return

        def stop() -> None:
            if life.is_up and not life.is_ending:
                self._world.fault("deploy")
                self._world.loop.spawn(life.party, self.stop(life), "stop")

        self._light(life, stop)

    async def stop(self, life: Life, *, again: bool = True) -> None:
        """As a server does: no new calls, the running ones end, then the engine stops."""
        world = self._world
        life.is_ending = True
        world.trace.note(life.holder, "stops")
        patience_s = GRACE_S
        while life.calls and patience_s > 0:
            await asyncio.sleep(0.01)
            patience_s -= 0.01
        if life.engine is not None:
            try:
                await life.engine.stop(GRACE_S)
            except Exception as error:
                world.trace.note(life.holder, "stop failed", repr(error))
            else:
                self._check_hands(life)
        world.trace.note(life.holder, "stopped")
        if again:
            world.boot_again(life.host, self._chance.uniform(0.1, 5.0))
        life.end()

    def _check_hands(self, life: Life) -> None:
        """Whoever stopped gracefully holds nothing any more, but for a send in doubt."""
        world = self._world
        if world.options.has("store", "full"):
            return
        for delivery in world.disk.candidates(Query(holder=life.holder)):
            if delivery.state == "in_flight" and not delivery.committing:
                world.findings.breach("I16", delivery.id, f"{life.holder} stopped and keeps it")

    def _jump(self) -> None:
        host = self._chance.choice(self._world.hosts)
        jump_s = self._chance.choice(JUMPS_S)
        if self._chance.random() < 0.3:
            jump_s = -host.wall_offset_ms / 1000
        host.wall_offset_ms += int(jump_s * 1000)
        self._world.fault("clock_jump")
        self._world.trace.note(host.name, "jumps", jump_s, host.wall_offset_ms)

    def _fill_the_disk(self) -> None:
        """In the middle of what a process does: perhaps between a send and its mark."""
        world = self._world
        for_s = self._chance.uniform(*FULL_S)

        def fill() -> None:
            world.weather.is_full = True
            world.trace.note("disk", "is full", for_s)
            world.loop.call_outside(for_s, empty)

        def empty() -> None:
            world.weather.is_full = False
            world.trace.note("disk", "has room")

        life = self._victim()
        if life is not None:
            self._light(life, fill)

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

"""Faults off, everybody alive: what is due must end, within a bound (I14).

Two parts. First the rest of the day: whatever is due by a sane clock ends within lease, poll
and one back-off. Then a night in which nobody runs: all that a wrong clock or a long wait had
put off is due when the processes start again, and ends as well.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from homing.domain.delivery import Delivery
from homing.testing.clocks import DAY_S
from homing.testing.simulator.breeds import LEASE_S, POLL_S
from homing.testing.simulator.hosts import EPOCH_MS

if TYPE_CHECKING:
    from homing.testing.simulator.world import World

LONGEST_BACK_OFF_S = 10.0
# A lease to end, a poll to notice, a back-off, and the services' time to settle a doubt.
BOUND_S = 2 * LEASE_S + 2 * POLL_S + LONGEST_BACK_OFF_S + 60.0
POISON_BOUND_S = 7 * (LEASE_S + POLL_S + 15.0)
NIGHT_S = 3 * DAY_S
LOOK_EVERY_S = 2.0


async def heal(world: World) -> None:
    _calm_down(world)
    bound_s = BOUND_S + (POISON_BOUND_S if world.options.poison else 0.0)
    healed_ms = _true_ms(world)
    await _settle(world, bound_s, until_ms=healed_ms + int(LONGEST_BACK_OFF_S * 1000))
    await _night(world)
    woken_ms = _true_ms(world)
    await _settle(world, bound_s, until_ms=woken_ms)
    await _stop_all(world)
    for delivery_id in world.disk.open:
        delivery = world.disk.deliveries[delivery_id]
        if not _is_far_off(world, delivery, woken_ms):
            world.findings.breach("I14", delivery_id, f"never ended: {_where(delivery)}")


def _calm_down(world: World) -> None:
    world.weather.is_rough = world.weather.is_full = False
    world.told.is_rough = world.workshop.is_rough = False
    for service in world.services.values():
        service.is_rough = service.has_bad_credentials = False
    for host in world.hosts:
        host.wall_offset_ms = 0
        if host.life is None or not host.life.is_alive:
            world.boot(host)
        else:
            host.life.party.fuse = None
            world.loop.thaw(host.life.party)
    world.trace.note("world", "heals")


async def _settle(world: World, bound_s: float, *, until_ms: int) -> None:
    """Let time pass until nothing due before `until_ms` is open, or the bound is over."""
    end_s = world.loop.time() + bound_s
    unparked = False
    while world.loop.time() < end_s and not world.findings.is_full:
        await asyncio.sleep(LOOK_EVERY_S)
        life = world.any_life()
        if life is not None and not unparked:
            world.operators.unpark_all(life)
            unparked = True
        if not _overdue(world, until_ms) and not world.clients.unsettled and not _owing(world):
            return
    for delivery in _overdue(world, until_ms):
        world.findings.breach("I14", delivery.id, f"due and not ended: {_where(delivery)}")


def _overdue(world: World, until_ms: int) -> list[Delivery]:
    found = [world.disk.deliveries[delivery_id] for delivery_id in world.disk.open]
    return [d for d in found if not _is_far_off(world, d, until_ms)]


def _is_far_off(world: World, delivery: Delivery, until_ms: int) -> bool:
    """Pending for later, by a due time that somebody asked for; or waiting for such a part."""
    if delivery.state == "pending":
        return (delivery.due_at_ms or 0) > until_ms
    if delivery.state == "waiting":
        parts = [world.disk.deliveries[i] for i in world.disk.children.get(delivery.id, ())]
        open_parts = [part for part in parts if not part.is_terminal]
        if not open_parts:
            return (delivery.due_at_ms or 0) > until_ms
        return all(_is_far_off(world, part, until_ms) for part in open_parts)
    return False


def _owing(world: World) -> bool:
    return any(d.notices_due for d in map(world.disk.deliveries.__getitem__, world.disk.dead))


async def _night(world: World) -> None:
    world.is_night = True
    await _stop_all(world)
    for life in world.lives:
        life.end()
    await asyncio.sleep(NIGHT_S)
    world.is_night = False
    for host in world.hosts:
        world.boot(host)
    await asyncio.sleep(LOOK_EVERY_S)


async def _stop_all(world: World) -> None:
    """Gracefully; whoever stops holds nothing any more, but for a send in doubt."""
    stops = [
        world.loop.spawn(life.party, world.misfortune.stop(life, again=False), "stop")
        for life in world.lives
    ]
    await asyncio.sleep(60.0)
    for stop in stops:
        if not stop.done():
            world.findings.breach("I14", stop.get_name(), "a graceful stop that never ends")


def _true_ms(world: World) -> int:
    return EPOCH_MS + int(world.loop.time() * 1000)


def _where(delivery: Delivery) -> str:
    due_in = "" if delivery.due_at_ms is None else f" due at {delivery.due_at_ms - EPOCH_MS} ms"
    return f"{delivery.state} in {delivery.stage}, held by {delivery.holder},{due_in}"

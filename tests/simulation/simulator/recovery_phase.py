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
from tests.simulation.simulator.hosts import EPOCH_MS
from tests.simulation.simulator.route_kinds import LEASE_S, POLL_S

if TYPE_CHECKING:
    from tests.simulation.simulator.world import World

LONGEST_BACK_OFF_S = 10.0
# A lease to end, a poll to notice, a back-off, and the services' time to settle a doubt.
BOUND_S = 2 * LEASE_S + 2 * POLL_S + LONGEST_BACK_OFF_S + 60.0
POISON_BOUND_S = 7 * (LEASE_S + POLL_S + 15.0)
LONG_STOP_S = 3 * DAY_S
LOOK_EVERY_S = 2.0


async def recover(world: World) -> None:
    _end_faults(world)
    bound_s = BOUND_S + (POISON_BOUND_S if world.options.poison else 0.0)
    healed_ms = _true_ms(world)
    await _settle(world, bound_s, until_ms=healed_ms + int(LONGEST_BACK_OFF_S * 1000))
    await _long_stop(world)
    woken_ms = _true_ms(world)
    world.clients.ask_after_terms(woken_ms)
    await _settle(world, bound_s, until_ms=woken_ms)
    await _stop_all(world)
    for delivery_id in world.disk.open:
        delivery = world.disk.deliveries[delivery_id]
        if not _is_far_off(world, delivery, woken_ms):
            world.findings.breach("I14", delivery_id, f"never ended: {_where(delivery)}")


def _end_faults(world: World) -> None:
    world.conditions.faults_on = world.conditions.is_full = False
    world.notice_log.faults_on = world.handler_runs.faults_on = False
    for service in world.services.values():
        service.faults_on = service.has_bad_credentials = False
    for host in world.hosts:
        host.wall_offset_ms = 0
        if host.process is None or not host.process.is_alive:
            world.boot(host)
        else:
            host.process.actor.countdown = None
            world.loop.thaw(host.process.actor)
    world.trace.note("world", "heals")


async def _settle(world: World, bound_s: float, *, until_ms: int) -> None:
    """Let time pass until nothing due before `until_ms` is open, or the bound is over."""
    end_s = world.loop.time() + bound_s
    resumed = False
    while world.loop.time() < end_s and not world.findings.is_full:
        await asyncio.sleep(LOOK_EVERY_S)
        process = world.any_process()
        if process is not None and not resumed:
            world.operators.resume_all(process)
            resumed = True
        unfinished = _overdue(world, until_ms) or world.clients.unsettled or _notices_due(world)
        if not unfinished:
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


def _notices_due(world: World) -> bool:
    return any(d.notices_due for d in map(world.disk.deliveries.__getitem__, world.disk.dead))


async def _long_stop(world: World) -> None:
    world.is_long_stop = True
    await _stop_all(world)
    for process in world.processes:
        process.end()
    await asyncio.sleep(LONG_STOP_S)
    world.is_long_stop = False
    for host in world.hosts:
        world.boot(host)
    await asyncio.sleep(LOOK_EVERY_S)


async def _stop_all(world: World) -> None:
    """Gracefully; whoever stops holds nothing any more, but for a send in doubt."""
    stops = [
        world.loop.spawn(process.actor, world.fault_schedule.stop(process, again=False), "stop")
        for process in world.processes
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

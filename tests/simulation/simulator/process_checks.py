"""What is left when a run is over: alarms, clicks, journals, and tasks that died unheard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from homing.domain.delivery import Attempt
from tests.simulation.simulator.options import Family

if TYPE_CHECKING:
    from tests.simulation.simulator.world import World

# Faults after which an attempt may be found interrupted, or one message be accepted twice.
INTERRUPTING: tuple[Family, ...] = ("store", "full", "crash", "freeze")
TOLD_WITHIN_S = 20.0
# Each process that meets the fault may tell of it before it hears of the others.
AGAIN = 1
# What runs in the background of an engine never ends by an exception.
BACKGROUND = ("Engine._revive", "Dispatcher._dispatch", "Settlement._flush")


def check_processes(world: World) -> None:
    _alarms(world)
    _clicks(world)
    _journals(world)
    _tasks(world)


def _tasks(world: World) -> None:
    """No background task dies in silence."""
    for actor in world.loop.actors:
        for error in actor.broken_callbacks:
            world.findings.breach("I14", actor.name, f"a callback ended by {error!r}")
        for task in actor.failed:
            name = getattr(task.get_coro(), "__qualname__", "")
            if name in BACKGROUND:
                world.findings.breach("I14", actor.name, f"{name} died of {task.exception()!r}")


def _alarms(world: World) -> None:
    """A paused route is told of, and not again and again (I19)."""
    told = world.notice_log
    troubled = world.options.has(*INTERRUPTING, "notice")
    for route, times in told.paused.items():
        given = told.alarms["route_paused", route]
        if told.longest_s.get(route, 0.0) > TOLD_WITHIN_S and not given and not troubled:
            world.findings.breach("I19", route, f"paused {times} times, and nobody was told")
        if given > times * len(world.hosts) * AGAIN and not troubled:
            world.findings.breach("I19", route, f"paused {times} times, told {given} times")


def _clicks(world: World) -> None:
    """Two simultaneous clicks have one effect (I21)."""
    for click in world.operators.clicks:
        if click.verb == "resend" and len(set(click.done)) > 1:
            world.findings.breach("I21", click.subject, "one double click made two clones")
        if click.verb == "replay" and len(click.done) > 1:
            world.findings.breach("I21", click.subject, "one double click replayed twice")


def _journals(world: World) -> None:
    """No outcome of a finished send is dropped: stored, journaled and read back, or noted (P8)."""
    disk, breach = world.disk, world.findings.breach
    unwritten = dict(world.sends.unwritten)
    for host in world.hosts:
        if host.works and host.journal.kept:
            breach("P8", host.name, f"{len(host.journal.kept)} outcomes unread in the journal")
        for change in host.journal.history:
            for attempt in change.ended:
                unwritten.pop((attempt.holder or "", attempt.delivery_id), None)
                if attempt.status == "done" and host.works and not _is_known(world, attempt):
                    breach("P8", attempt.delivery_id, "journaled, read back, and not written")
    crashed = world.crashed
    for holder, delivery_id in unwritten:
        gone = delivery_id in disk.removed
        if holder not in crashed and not gone and not world.options.has("store"):
            breach("P8", delivery_id, f"{holder} knew that it was accepted, and wrote it nowhere")


def _is_known(world: World, attempt: Attempt) -> bool:
    if attempt.delivery_id in world.disk.removed:
        return True
    written = world.disk.attempts.get(attempt.delivery_id, {}).get(attempt.number)
    late = world.disk.facts.get("late_outcome", {})
    done = written is not None and written.attempt.status == "done"
    return done or f"{attempt.delivery_id}/{attempt.number}" in late

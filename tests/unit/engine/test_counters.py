"""Counters by the minute: they survive restarts, add up over processes, and are removed in time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from homing.domain.delivery import Cycle
from homing.domain.errors import StoreFull
from homing.domain.message import Email
from homing.engine.process.counters import (
    BOUNDS_MS,
    CAME_BACK,
    FLUSH_EVERY_S,
    RESOLUTIONS,
    Counters,
    Point,
    history,
    percentile,
)
from homing.runtime.app import Homing
from homing.stores.memory import MemoryDisk, MemoryStore
from homing.testing.clocks import ManualClock

MAIL = Email(to="ok@stub.test", subject="Booked", text="See you")
BOUNCE = Email(to="bounce@stub.test", subject="Booked", text="See you")
DOWN = Email(to="down@stub.test", subject="Booked", text="See you")


class World:
    """Processes on one disk, with one clock."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.clock = ManualClock()

    def process(self) -> Homing:
        return Homing(MemoryStore(self.disk), provider="stub:", worker=False, clock=self.clock)

    async def points(self, span: str = "hour", route: str | None = None) -> list[Point]:
        _, points = await history(
            MemoryStore(self.disk),
            self.clock.now_ms(),
            span,  # type: ignore[arg-type] # a span by its name
            route,
        )
        return points


def summed(points: list[Point]) -> tuple[int, int, int]:
    return (
        sum(point.accepted for point in points),
        sum(point.delivered for point in points),
        sum(point.failed for point in points),
    )


@pytest.fixture
def world() -> World:
    return World()


async def test_they_are_written_and_survive_a_restart(world: World) -> None:
    async with world.process() as homing:
        for message in (MAIL, MAIL, BOUNCE):
            await homing.submit(message)
        world.clock.advance(3)
        await homing.engine.run_until_idle()
    world.clock.advance(60)
    async with world.process() as homing:
        await homing.submit(MAIL)
    points = await world.points()
    assert len(points) == 60
    assert [(p.accepted, p.delivered, p.failed) for p in points[-2:]] == [(3, 2, 1), (1, 0, 0)]
    assert summed(points) == (4, 2, 1)
    for span in ("day", "week"):
        assert summed(await world.points(span)) == (4, 2, 1)
    assert summed(await world.points(route="mail")) == (4, 2, 1)
    assert summed(await world.points(route="other")) == (0, 0, 0)


async def test_processes_add_up(world: World) -> None:
    async with world.process() as one, world.process() as other:
        await one.submit(MAIL)
        await other.submit_many([MAIL, MAIL])
        await one.engine.run_until_idle()
    assert summed(await world.points()) == (3, 3, 0)


async def test_what_waits_is_seen_once_however_many_processes_look(world: World) -> None:
    async with world.process() as one, world.process() as other:
        await one.submit_many([DOWN, DOWN])
        await one.engine.run_until_idle()
        for each in (one, other):
            await each.engine.process.counters.flush()
        assert (await world.points())[-1].waiting == 2


async def test_the_time_to_deliver_is_shown_as_percentiles(world: World) -> None:
    async with world.process() as homing:
        for wait_s in (0.015,) * 19 + (1.5,):
            await homing.submit(MAIL)
            world.clock.advance(wait_s)
            await homing.engine.run_until_idle()
    point = (await world.points())[-1]
    assert point.p50_ms is not None
    assert point.p95_ms is not None
    assert 10 <= point.p50_ms <= 20
    assert point.p95_ms <= 20
    assert percentile([0] * len(BOUNDS_MS) + [1], 0.5) == BOUNDS_MS[-1]
    assert percentile([0] * (len(BOUNDS_MS) + 1), 0.5) is None


async def test_a_refused_write_is_made_up_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.process() as homing:
        await homing.submit(MAIL)
        with monkeypatch.context() as full:

            async def refuse(*given: object) -> list[bool]:
                raise StoreFull("no space left")

            full.setattr(homing.store, "save", refuse)
            with pytest.raises(StoreFull):
                await homing.engine.process.counters.write()
        await homing.submit(MAIL)
        await homing.engine.process.counters.write()
    assert summed(await world.points()) == (2, 0, 0)


async def test_nothing_is_written_while_nothing_happens(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.process() as homing:

        async def refuse(*given: object) -> list[bool]:
            raise AssertionError(given)

        monkeypatch.setattr(homing.store, "save", refuse)
        for _ in range(10):
            world.clock.advance(FLUSH_EVERY_S)
            await homing.engine.process.counters.flush()
        monkeypatch.undo()


async def test_they_are_removed_when_no_chart_needs_them(world: World) -> None:
    async with world.process() as homing:
        await homing.submit(MAIL)
        await homing.engine.process.counters.write()
        for kept in ({"counts_10m", "counts_1h"}, {"counts_1h"}, set()):
            left = {"counts_1m": 3800, "counts_10m": 90_000, "counts_1h": 700_000}
            world.clock.advance(max(left[kind] for kind in left if kind not in kept))
            await homing.engine.housekeeping.purge()
            found = {r.kind for r in RESOLUTIONS.values() if await homing.store.facts(r.kind)}
            assert found == kept


async def test_children_and_repeats_are_not_counted(world: World) -> None:
    async with world.process() as homing:
        for _ in range(3):
            await homing.submit(MAIL, key="k-1")
    assert summed(await world.points()) == (1, 0, 0)


async def test_what_ends_is_counted_once_however_often_it_is_changed(world: World) -> None:
    """A dead letter that is amended stays one."""
    async with world.process() as homing:
        ticket = await homing.submit(BOUNCE)
        await homing.engine.run_until_idle()
        await homing.ops.amend(ticket.delivery_id, MAIL, actor="ann", reason="wrong address")
    assert summed(await world.points()) == (1, 0, 1)


@pytest.mark.parametrize(("before", "came_back"), [("recipient_refused", 1), ("timeout", 0)])
async def test_only_the_same_error_comes_back(world: World, before: str, came_back: int) -> None:
    async with world.process() as homing:
        ticket = await homing.submit(BOUNCE)
        await homing.engine.run_until_idle()
        failed = await homing.ops.show(ticket.delivery_id)
        cycle = Cycle(
            number=1,
            attempts=1,
            stage="send",
            error_class=before,
            replayed_at_ms=0,
            replayed_by="ann",
            reason="it is mended",
        )
        counters = Counters(homing.store, world.clock, "a process")
        counters.changed([(None, replace(failed, failure_history=(cycle,)))])
        await counters.write()
        assert len(await homing.store.facts(CAME_BACK)) == came_back


async def test_a_request_counts_once_however_many_children_it_has(world: World) -> None:
    async with world.process() as homing:
        ticket = await homing.submit(MAIL)
        await homing.engine.run_until_idle()
        parent = await homing.ops.show(ticket.delivery_id)
        child = replace(parent, parent_id="a parent")
        counters = Counters(homing.store, world.clock, "a process")
        counters.accepted([parent, child])
        counters.changed([(None, parent), (None, child)])
        await counters.write()
    assert summed(await world.points()) == (2, 2, 0)


async def test_the_time_of_a_person_is_no_time_to_deliver(world: World) -> None:
    """What was replayed has waited for its replay."""
    async with world.process() as homing:
        ticket = await homing.submit(MAIL)
        world.clock.advance(1)
        await homing.engine.run_until_idle()
        delivered = await homing.ops.show(ticket.delivery_id)
        world.clock.advance(60)
        counters = Counters(homing.store, world.clock, "a process")
        counters.changed([(None, replace(delivered, cycle=2))] * 100)
        await counters.write()
    first, last = (point for point in await world.points() if point.delivered)
    assert (first.delivered, last.delivered) == (1, 100)
    assert first.p95_ms is not None
    assert last.p95_ms is None

"""A crowd of callers goes before the work, for a while; the work never stops."""

from __future__ import annotations

import asyncio

import pytest

from homing.domain.errors import StoreUnavailable
from homing.domain.message import Event
from homing.engine.intake import intake_priority
from homing.engine.intake.admission import Request, Ticket
from homing.engine.intake.intake_priority import (
    CROWD,
    PATIENCE_S,
    PORTION,
    PORTION_EVERY_S,
    IntakePriority,
)
from homing.testing.clocks import ManualClock
from tests.unit.engine.world import FaultyStore, World, route


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def way(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> IntakePriority:
    monkeypatch.setattr(intake_priority, "LOOK_AGAIN_S", 0.0)
    return IntakePriority(clock)


async def test_a_few_callers_change_nothing(way: IntakePriority, clock: ManualClock) -> None:
    way.waiting = CROWD - 1
    assert await way.portion(320, clock.steady_s(), 0.0) == 320


async def test_before_a_crowd_work_comes_in_portions_with_rests(
    way: IntakePriority, clock: ManualClock
) -> None:
    way.waiting = CROWD
    asked = asyncio.ensure_future(way.portion(320, clock.steady_s(), 0.0))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not asked.done()
    clock.advance(PORTION_EVERY_S)
    assert await asked == PORTION
    assert await way.portion(5, clock.steady_s() - PORTION_EVERY_S, 0.0) == 5


async def test_once_the_crowd_has_gone_nobody_rests(
    way: IntakePriority, clock: ManualClock
) -> None:
    way.waiting = CROWD
    asked = asyncio.ensure_future(way.portion(320, clock.steady_s(), 0.0))
    await asyncio.sleep(0)
    way.waiting = 0
    assert await asked == 320


async def test_work_that_has_waited_long_gives_way_no_more(
    way: IntakePriority, clock: ManualClock
) -> None:
    way.waiting = CROWD
    assert await way.portion(320, clock.steady_s(), PATIENCE_S + 1) == 320


async def test_a_worker_takes_a_portion_while_callers_wait_and_all_of_it_after() -> None:
    world = World(route())
    for number in range(3 * PORTION):
        await world.submit(str(number))
    way = world.engine.process.intake
    [worker] = world.engine.workers.values()

    way.waiting = CROWD
    await worker._claim_once()
    assert len(worker.held_ids) == PORTION

    way.waiting = 0
    await worker._claim_once()
    assert len(worker.held_ids) == 3 * PORTION


async def test_who_waits_is_counted_until_answered_or_refused() -> None:
    store = FaultyStore()
    world = World(store=store)
    way, submit_one = world.engine.process.intake, world.engine.admission.submit_one

    def call(key: str) -> asyncio.Task[Ticket]:
        request = Request(message=Event("paid"), key=key)
        return asyncio.ensure_future(submit_one(world.route, request))

    calling = [call(str(number)) for number in range(3)]
    await asyncio.sleep(0)
    assert way.waiting == 3
    await asyncio.gather(*calling)
    assert way.waiting == 0

    store.before["add"].append(StoreUnavailable("gone"))
    with pytest.raises(StoreUnavailable):
        await call("late")
    assert way.waiting == 0


async def test_a_worker_that_is_stopped_while_it_waits_claims_nothing_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its process would be gone before it knew of such a claim, and could not give it back."""
    monkeypatch.setattr(intake_priority, "LOOK_AGAIN_S", 0.0)
    store = FaultyStore()
    world = World(route(), store=store)
    await world.submit("1")
    way = world.engine.process.intake
    [worker] = world.engine.workers.values()
    await worker._claim_once()
    await world.submit("2")

    way.waiting = CROWD
    claiming = asyncio.ensure_future(worker._claim_once())
    await asyncio.sleep(0)
    await worker.stop(0.0)
    store.calls.clear()
    way.waiting = 0
    await claiming

    assert "claim" not in store.calls

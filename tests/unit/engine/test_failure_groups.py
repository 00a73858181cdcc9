"""Groups of dead letters: count, trend, first and last seen, and whether they came back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from homing.domain.delivery import FailedBecause
from homing.domain.failure import Failure
from homing.domain.message import Email
from homing.engine.ops.failure_groups import FailureGroup, failure_groups
from homing.ports import Facet, Query
from homing.runtime.app import Homing
from homing.stores.memory import MemoryStore
from homing.testing import samples
from homing.testing.clocks import ManualClock

BOUNCE = Email(to="bounce@stub.test", subject="Booked", text="See you")
SIGNED: Any = {"actor": "ann", "reason": "the mailbox exists now"}


class World:
    def __init__(self, homing: Homing, clock: ManualClock) -> None:
        self.homing = homing
        self.clock = clock

    async def fail(self, number: int = 1) -> list[str]:
        tickets = [await self.homing.submit(BOUNCE) for _ in range(number)]
        await self.homing.engine.run_until_idle()
        return [ticket.delivery_id for ticket in tickets]

    async def group(self) -> FailureGroup:
        [group] = await self.homing.ops.failures()
        return group


@pytest.fixture
async def world() -> AsyncIterator[World]:
    clock = ManualClock()
    async with Homing("memory:", provider="stub:", worker=False, clock=clock) as homing:
        yield World(homing, clock)


async def test_a_group_says_since_when_and_until_when(world: World) -> None:
    began_ms = world.clock.now_ms()
    [first] = await world.fail()
    world.clock.advance(600)
    [last] = await world.fail()
    group = await world.group()
    assert (group.count, group.error_class) == (2, "recipient_refused")
    assert (group.first_seen_at_ms, group.last_seen_at_ms) == (began_ms, began_ms + 600_000)
    assert group.newest is not None
    assert group.newest.id == last != first


async def test_what_was_dismissed_and_restored_was_seen_when_it_failed(world: World) -> None:
    began_ms = world.clock.now_ms()
    [delivery_id] = await world.fail()
    world.clock.advance(600)
    await world.homing.ops.dismiss(delivery_id, **SIGNED)
    world.clock.advance(600)
    await world.homing.ops.restore(delivery_id, **SIGNED)

    group = await world.group()

    assert (group.first_seen_at_ms, group.last_seen_at_ms) == (began_ms, began_ms)


@pytest.mark.parametrize(
    ("before", "now", "trend"),
    [(1, 2, "rising"), (2, 1, "falling"), (1, 1, "steady"), (2, 0, "quiet"), (0, 1, "rising")],
)
async def test_the_trend_compares_the_last_hour_with_the_one_before(
    world: World, before: int, now: int, trend: str
) -> None:
    await world.fail(before)
    world.clock.advance(3700)
    await world.fail(now)
    group = await world.group()
    assert (group.hour_before, group.last_hour, group.trend) == (before, now, trend)


async def test_groups_of_one_class_have_each_their_own_newest() -> None:
    """By reason: an operator opens the newest of a group to see what it is about."""
    store, clock = MemoryStore(), ManualClock()
    kinds: tuple[tuple[str, FailedBecause, str], ...] = (
        ("timed_out", "exhausted", "mail"),
        ("timed_out", "uncertain", "mail"),
        ("refused", "rejected", "mail"),
        ("refused", "rejected", "jobs"),
        ("", "expired", "mail"),
        ("timed_out", "expired", "mail"),
    )
    for number, (error_class, because, route) in enumerate(kinds):
        at_ms = clock.now_ms() + number
        dead = samples.new(
            f"d{number}",
            route=route,
            state="failed",
            failed_because=because,
            failure=Failure(error_class) if error_class else None,
            created_at_ms=at_ms,
            updated_at_ms=at_ms,
            ended_at_ms=at_ms,
        )
        await store.add([dead])

    groups = await failure_groups(store, clock, Query(facets=(Facet(state="failed"),)), 10)

    found = {(g.error_class, g.failed_because, g.route): g for g in groups}
    assert found.keys() == set(kinds)
    for number, kind in enumerate(kinds):
        newest = found[kind].newest
        assert newest is not None
        assert newest.id == f"d{number}"
        seen_ms = clock.now_ms() + number
        assert (found[kind].first_seen_at_ms, found[kind].last_seen_at_ms) == (seen_ms, seen_ms)


async def test_a_group_that_came_back_after_a_replay_says_so(world: World) -> None:
    began_ms = world.clock.now_ms()
    [delivery_id, *_] = await world.fail(2)
    assert (await world.group()).came_back_at_ms is None
    world.clock.advance(60)
    await world.homing.ops.replay(delivery_id, **SIGNED)
    await world.homing.engine.run_until_idle()
    await world.homing.engine.process.counters.write()
    group = await world.group()
    assert group.came_back_at_ms == world.clock.now_ms()
    assert group.came_back_delivery_id == delivery_id
    assert group.first_seen_at_ms == began_ms
    # Somebody has looked at it.
    await world.homing.ops.dismiss(delivery_id, **SIGNED)
    assert (await world.group()).came_back_at_ms is None


async def test_a_replay_that_helps_is_no_return(world: World) -> None:
    [delivery_id] = await world.fail()
    await world.homing.ops.amend(
        delivery_id, Email(to="ok@stub.test", subject="Booked", text="See you"), **SIGNED
    )
    await world.homing.ops.replay(delivery_id, **SIGNED)
    await world.homing.engine.run_until_idle()
    await world.homing.engine.process.counters.write()
    assert await world.homing.ops.failures() == []
    await world.fail()
    assert (await world.group()).came_back_at_ms is None

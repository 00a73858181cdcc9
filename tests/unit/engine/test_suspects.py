"""Suspects are tried in ever smaller numbers, beside healthy work, and alone only at last."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from homing.domain.delivery import Content, Delivery
from homing.engine.work.claimed_work import ClaimedWork, works_of
from homing.engine.work.permits import SUSPECT_PERMITS
from homing.engine.work.suspects import SuspectQueue, permits_for
from homing.engine.work.worker import READ_AHEAD
from homing.ports import Claimed, Done, Outcome, Work
from tests.unit.engine.providers import Flock, sending
from tests.unit.engine.test_worker import running
from tests.unit.engine.world import World, quiet, route


class Crowd:
    """A step that waits, and knows who is inside."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.let_go = asyncio.Event()

    async def __call__(self, work: Work) -> Outcome:
        key = work.delivery.key or ""
        self.inside.append(key)
        await self.let_go.wait()
        self.inside.remove(key)
        return Done()

    def count(self, name: str) -> int:
        return sum(key.startswith(name) for key in self.inside)


async def suspect(world: World, key: str, **fields: Any) -> Delivery:
    """Accepted, and held by a process that has died."""
    accepted = await world.submit(key)
    await world.crash_of_another(accepted.id)
    stored = await world.get(accepted.id)
    world.store.disk.put(replace(stored, **fields))
    world.clock.advance(0.001)
    return stored


@pytest.mark.parametrize(("deaths", "at_once"), [(1, 16), (2, 4), (3, 1), (9, 1)])
async def test_after_each_death_fewer_go_at_once(deaths: int, at_once: int) -> None:
    step = Crowd()
    world = World(route(step=step))
    known = {"interruptions": deaths - 1, "interruption_noted": deaths > 1}
    for number in range(20):
        await suspect(world, f"suspect {number}", **known)

    async with running(world):
        await quiet()
        assert step.count("suspect") == at_once
        step.let_go.set()
        await world.until_told("succeed", 20)


async def test_healthy_work_goes_on_beside_one_that_is_tried_alone() -> None:
    step = Crowd()
    world = World(route(step=step))
    alone = await suspect(world, "suspect 1", interruptions=2, interruption_noted=True)
    await suspect(world, "suspect 2")
    for number in range(20):
        await world.submit(f"healthy {number}")

    async with running(world):
        await quiet()
        assert (step.count("suspect"), step.count("healthy")) == (1, 20)
        assert (await world.get(alone.id)).tried_alone
        step.let_go.set()
        await world.until_told("succeed", 22)


async def test_all_routes_of_a_process_share_the_permits_of_suspects() -> None:
    step = Crowd()
    first, second = route(step=step, name="event"), route(step=step, name="other")
    world = World(first, second)
    await suspect(world, "suspect 1", interruptions=2, interruption_noted=True)
    world.route = second
    await suspect(world, "suspect 2", interruptions=2, interruption_noted=True)

    async with running(world):
        await quiet()
        assert step.count("suspect") == 1
        step.let_go.set()
        await world.until_told("succeed", 2)


async def test_what_earlier_holders_left_is_noted_in_one_write_for_all() -> None:
    world = World(route(step=Crowd()))
    for number in range(10):
        await suspect(world, f"suspect {number}")

    async with running(world):
        await world.until_told("note_interruption", 10)
        stored = [event.delivery for event in world.told if event.name == "note_interruption"]
        assert {(d.interruptions, d.tried_alone, d.crashes) for d in stored} == {(1, False, 0)}
        await world.engine.stop(grace_s=0.0)


async def test_what_kills_its_process_when_tried_alone_is_poison_in_the_end() -> None:
    world = World(route(rules={"max_crashes": 2}))
    accepted = await world.submit()
    deaths = 0
    while (await world.get(accepted.id)).state != "failed":
        other = World(
            route(step=Crowd(), rules={"max_crashes": 2}),
            store=world.store,
            clock=world.clock,
            name=f"w{deaths}",
        )
        run = asyncio.ensure_future(other.engine.run_until_idle())
        await quiet()
        if (await world.get(accepted.id)).state == "failed":
            await run
            break
        run.get_coro().close()  # it dies without a word
        run.cancel()
        deaths += 1
        world.clock.advance(world.route.lease_s)

    assert deaths == 3 + 2
    assert (await world.get(accepted.id)).failed_because == "poison"


async def test_suspect_sends_go_in_batches_of_their_own() -> None:
    provider = Flock()
    world = World(sending(provider))
    for number in range(SUSPECT_PERMITS + 4):
        await suspect(world, f"suspect {number}")

    async with running(world):
        await quiet()
        assert provider.asked == [SUSPECT_PERMITS]
        provider.answer(SUSPECT_PERMITS)
        await world.until_told("succeed", SUSPECT_PERMITS)
        await quiet()
        provider.answer(4)
        await world.until_told("succeed", SUSPECT_PERMITS + 4)


async def test_a_stop_gives_back_suspects_that_wait() -> None:
    world = World(route(step=Crowd()))
    waiting = [
        await suspect(world, str(n), interruptions=2, interruption_noted=True) for n in range(3)
    ]
    await world.engine.start()
    await quiet()

    await world.engine.stop(grace_s=0.0)

    states = [(await world.get(one.id)).state for one in waiting]
    assert states == ["pending"] * 3


def test_a_proved_crash_is_always_tried_alone() -> None:
    healthy = Delivery(id="d", route="r", queue="r", stage="s", created_at_ms=1, updated_at_ms=1)

    assert permits_for(healthy) == 0
    assert permits_for(replace(healthy, crashes=1)) == SUSPECT_PERMITS


async def test_suspects_of_a_paused_route_hold_no_permits() -> None:
    world = World(route(step=Crowd()))
    for number in range(3):
        await suspect(world, f"suspect {number}")
    [worker] = world.engine.workers.values()
    worker._dispatcher.start()
    worker._dispatcher.hand_out(await worker._claim(3))
    await world.engine.pausing.pause("event", actor="ann", reason="maintenance")

    await quiet()

    assert world.engine.runner.permits.of(world.route).suspects.free == SUSPECT_PERMITS
    assert worker.held_ids == frozenset()
    await world.engine.stop(grace_s=0.0)


async def test_however_many_suspects_wait_healthy_work_is_claimed_beside_them() -> None:
    step = Crowd()
    world = World(route(step=step, concurrency=20))
    many = world.route.concurrency + READ_AHEAD + 10
    for number in range(many):
        await suspect(world, f"suspect {number}")
    for number in range(3):
        await world.submit(f"healthy {number}")

    async with running(world):
        for _ in range(3):
            await quiet()
        assert (step.count("suspect"), step.count("healthy")) == (SUSPECT_PERMITS, 3)
        step.let_go.set()
        await world.until_told("succeed", many + 3)


async def test_suspects_taken_away_while_they_wait_leave_all_permits_to_others() -> None:
    world = World(route())
    [claimed] = await _claimed_suspects(world, interruptions=1, interruption_noted=True)
    permits = world.engine.runner.permits.of(world.route)
    await permits.suspects.take(SUSPECT_PERMITS)
    admitted: list[ClaimedWork] = []
    waiting = SuspectQueue(permits, admitted.extend)
    running = asyncio.create_task(waiting.run())
    waiting.put([claimed])
    await quiet()

    assert waiting.take_all() == [claimed]
    permits.suspects.give_back(SUSPECT_PERMITS)
    await quiet()

    assert admitted == []
    assert await permits.suspects.take(SUSPECT_PERMITS) == SUSPECT_PERMITS
    running.cancel()


async def _claimed_suspects(world: World, **fields: Any) -> list[ClaimedWork]:
    stored = await suspect(world, "suspect", **fields)
    stored = await world.get(stored.id)
    claimed = replace(stored, unsettled_claims=stored.unsettled_claims + 1)
    runner, held = world.engine.runner, Claimed(claimed, Content())
    return works_of(runner.process, world.route, runner.permits.of(world.route), [held], 0.0)

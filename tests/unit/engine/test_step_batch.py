"""Handlers in lists: in the batch's own task, and one that waits holds up no other."""

from __future__ import annotations

import asyncio

import pytest

from homing.domain.failure import Failure
from homing.engine.work.dispatcher import TURN_S
from homing.ports import Answers, Batch, Done, Outcome, Work
from homing.stores.memory import MemoryStore
from tests.unit.engine.test_worker import running
from tests.unit.engine.world import Script, World, quiet, route, saved, stage


async def test_handlers_that_do_not_wait_need_no_task_of_their_own() -> None:
    tasks: set[object] = set()

    async def step(work: Work) -> Outcome:
        tasks.add(asyncio.current_task())
        return Done()

    world = World(route(step=step))
    for number in range(50):
        await world.submit(str(number))

    async with running(world):
        await world.until_told("succeed", 50)

    assert len(tasks) == 1


async def test_one_that_waits_keeps_its_task_and_the_rest_goes_on() -> None:
    let_go = asyncio.Event()

    async def step(work: Work) -> Outcome:
        if work.delivery.key == "3":
            before = asyncio.current_task()
            await let_go.wait()
            assert asyncio.current_task() is before
        return Done()

    world = World(route(step=step))
    for number in range(10):
        await world.submit(str(number))

    async with running(world):
        await world.until_told("succeed", 9)
        let_go.set()
        await world.until_told("succeed", 10)


class SlowStore(MemoryStore):
    """Stores no outcome before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_save = asyncio.Event()

    async def commit(self, batch: Batch) -> Answers:
        if saved(batch):
            await self.may_save.wait()
        return await super().commit(batch)


async def test_no_more_calls_than_slots_have_begun_and_are_not_stored() -> None:
    begun: list[str | None] = []

    async def step(work: Work) -> Outcome:
        begun.append(work.delivery.key)
        await asyncio.sleep(0)
        return Done()

    store = SlowStore()
    world = World(route(step=step, concurrency=3), store=store)
    for number in range(9):
        await world.submit(str(number))

    async with running(world):
        await quiet()
        assert sorted(begun, key=str) == ["0", "1", "2"]
        store.may_save.set()
        await world.until_told("succeed", 9)

    assert len(begun) == 9


async def test_once_one_has_paused_the_route_the_rest_of_its_list_is_not_tried() -> None:
    step = Script(Failure("no_database", "route_fault"))
    world = World(route(step=step, concurrency=1))
    accepted = [await world.submit(str(number)) for number in range(5)]

    async with running(world):
        await world.until_told("fail")
        await quiet()
        assert world.engine.pausing.is_paused(world.route.name)

    assert [delivery.key for delivery in step.seen] == ["0"]
    stored = [await world.get(one.id) for one in accepted]
    assert [one.state for one in stored] == ["pending"] * 5


async def test_a_time_limit_inside_a_handler_ends_that_handler_alone() -> None:
    async def step(work: Work) -> Outcome:
        if work.delivery.key == "1":
            try:
                async with asyncio.timeout(0):
                    await asyncio.Event().wait()
            except TimeoutError:
                return Failure("too_slow")
        return Done()

    world = World(route(step=step, concurrency=1))
    accepted = [await world.submit(str(number)) for number in range(3)]

    async with running(world):
        await world.until_told("succeed", 2)
        await world.until_told("fail")

    slow = await world.get(accepted[1].id)
    assert slow.failure is not None
    assert slow.failure.error_class == "too_slow"


async def test_a_cancel_that_a_handler_raises_itself_ends_no_slot() -> None:
    async def step(work: Work) -> Outcome:
        if work.delivery.key == "0":
            raise asyncio.CancelledError
        return Done()

    world = World(route(step=step, concurrency=1))
    for number in range(3):
        await world.submit(str(number))

    async with running(world):
        await world.until_told("succeed", 2)
        await world.until_told("fail")


async def test_lists_of_slow_handlers_become_short_so_that_others_have_their_turn() -> None:
    async def step(work: Work) -> Outcome:
        world.clock.advance(TURN_S / 2)
        return Done()

    world = World(route(step=step, concurrency=1))
    for number in range(200):
        await world.submit(str(number))
    [worker] = world.engine.workers.values()

    async with running(world):
        await world.until_told("succeed", 64)
        assert worker._dispatcher._batch_length == 2


@pytest.mark.parametrize("waits", [False, True])
async def test_the_last_stage_gives_the_same_record_in_a_list_and_alone(waits: bool) -> None:
    async def step(work: Work) -> Outcome:
        if waits:
            await asyncio.sleep(0)
        return Done(result=b"result")

    world = World(route(stage("fetch"), stage("handle"), step=step))
    accepted = await world.submit()
    async with running(world):
        await world.until_told("succeed")
        await quiet()

    after = await world.get(accepted.id)
    assert (after.state, after.attempts_ended, after.attempts_spent) == ("delivered", 2, 1)
    content = await world.store.content(accepted.id)
    assert content is not None
    assert content.results == {"fetch": b"result", "handle": b"result"}
    attempts = await world.store.attempts(accepted.id)
    assert [(a.stage, a.status, a.holder) for a in attempts] == [
        ("fetch", "done", "w1"),
        ("handle", "done", "w1"),
    ]


async def test_a_list_that_is_stopped_in_the_middle_keeps_what_was_returned_before() -> None:
    async def step(work: Work) -> Outcome:
        if work.delivery.key == "2":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            raise asyncio.CancelledError
        return Done()

    world = World(route(step=step, concurrency=1))
    accepted = [await world.submit(str(number)) for number in range(4)]

    async with running(world):
        await world.until_told("succeed", 2)

    states = [(await world.get(one.id)).state for one in accepted]
    assert states[:2] == ["delivered"] * 2

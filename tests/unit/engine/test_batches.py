"""Batches are bounded in number and in bytes, and large mails are composed beside the loop."""

from __future__ import annotations

import threading

import pytest
from msgspec.structs import replace

from homing.domain.delivery import Content, Delivery
from homing.domain.message import Event
from homing.engine.work import inbox, send_batch
from homing.engine.work import worker as working
from homing.engine.work.handlers import Handlers
from homing.engine.work.inbox import MAX_BATCH, Inbox, batches
from homing.engine.work.steps import SendStep
from tests.unit.engine.providers import Flock, Provider, sending
from tests.unit.engine.test_worker import Watched, running
from tests.unit.engine.world import Patient, Script, World, quiet, route, stage


async def sizes(world: World, limit: int = 1000) -> list[int]:
    [worker] = world.engine.workers.values()
    return [len(batch) for batch in batches(await worker._claim(limit))]


async def test_a_batch_is_bounded_in_number() -> None:
    world = World(sending(Flock()))
    for number in range(MAX_BATCH + 3):
        await world.submit(str(number))

    assert await sizes(world) == [MAX_BATCH, 3]


async def test_a_batch_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "MAX_BATCH_BYTES", 1000)
    world = World(sending(Flock()))
    for number, size in enumerate((300, 300, 300, 300, 2000, 10)):
        await world.submit(str(number), message=Event("paid", {"text": "x" * size}))

    assert await sizes(world) == [2, 2, 1, 1]


async def test_providers_that_take_one_at_a_time_get_one_at_a_time() -> None:
    world = World(sending(Provider()))
    for number in range(3):
        await world.submit(str(number))

    assert await sizes(world) == [1, 1, 1]


async def test_small_batches_of_several_claims_are_filled_up() -> None:
    world = World(sending(Flock()))
    for number in range(MAX_BATCH + 3):
        await world.submit(str(number))
    [worker] = world.engine.workers.values()
    waiting = Inbox()
    claims = [await worker._claim(limit) for limit in (20, 20, 27)]
    for works in claims:
        for batch in batches(works):
            waiting.put(batch)

    taken = [waiting.get_nowait(), waiting.get_nowait()]

    assert [len(batch) for batch in taken] == [MAX_BATCH, 3]
    assert [work for batch in taken for work in batch] == [
        work for works in claims for work in works
    ]
    assert not waiting


async def test_a_batch_is_filled_up_only_with_what_may_share_it() -> None:
    world = World(sending(Flock()))
    for number, priority in enumerate((1, 2)):
        await world.submit(str(number), priority=priority)
    [worker] = world.engine.workers.values()
    waiting = Inbox()
    for batch in batches(await worker._claim(2)):
        waiting.put(batch)

    assert [len(waiting.get_nowait()) for _ in range(2)] == [1, 1]


async def test_every_sending_stage_goes_in_batches_not_only_the_first_one() -> None:
    provider = Flock()
    step = SendStep(provider, lambda delivery, content: b"hello")
    both = route(stage("render"), stage("send", sends=True), step=Script(), name="mail")
    world = World(replace(both, steps={"render": Script(), "send": step}, provider=provider))
    for number in range(10):
        await world.submit(str(number))

    async with running(world):
        await world.until_told("mark_committing", 10)
        await quiet()
        assert provider.asked == [10]
        provider.answer(10)
        await world.until_told("succeed", 10)


async def test_what_is_held_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "MAX_HELD_BYTES", 10_000)
    step, store = Patient(), Watched()
    world = World(route(step=step, concurrency=4), store=store)
    for number in range(6):
        await world.submit(str(number), message=Event("paid", {"text": "x" * 1000}))

    async with running(world):
        await step.came.wait()
        for number in range(6, 40):
            await world.submit(str(number), message=Event("paid", {"text": "x" * 1000}))
        await quiet()
        [worker] = world.engine.workers.values()
        assert worker._held.size < 10_000
        step.to_state.set()
        await world.until_told("succeed", 40)

    assert all(claim.limit_bytes and claim.limit_bytes <= 10_000 for claim in store.claims)


async def test_what_a_claim_left_behind_for_its_bytes_is_claimed_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(working, "MAX_HELD_BYTES", 3_000)
    world = World(route())
    for number in range(40):
        await world.submit(str(number), message=Event("paid", {"text": "x" * 1000}))

    assert await world.run() == 40


async def test_a_large_mail_is_composed_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(send_batch, "LARGE_PAYLOAD", 1000)
    threads: dict[str | None, bool] = {}

    def freeze(delivery: Delivery, content: Content) -> bytes:
        threads[delivery.key] = threading.current_thread() is threading.main_thread()
        return b"hello"

    provider = Provider()
    world = World(sending(provider, step=SendStep(provider, freeze)))
    await world.submit("small")
    await world.submit("large", message=Event("paid", {"text": "x" * 2000}))

    await world.run()

    assert threads == {"small": True, "large": False}


async def test_alternating_events_are_grouped_by_their_handler() -> None:
    handlers = Handlers()
    for name in ("paid", "sent"):
        handlers.add(
            name, lambda event: None, name=name, retry=None, timeout_s=5.0, terminal_errors=()
        )
    world = World(handlers.route())
    for number in range(10):
        await world.submit(str(number), message=Event("paid" if number % 2 else "sent"))

    assert await sizes(world) == [5, 5]


async def test_what_is_more_urgent_is_in_an_earlier_batch() -> None:
    world = World(route())
    for number in range(6):
        await world.submit(str(number), priority=4 if number % 2 else 1)
    [worker] = world.engine.workers.values()

    found = list(batches(await worker._claim(10)))

    assert [[work.delivery.priority for work in batch] for batch in found] == [[1] * 3, [4] * 3]

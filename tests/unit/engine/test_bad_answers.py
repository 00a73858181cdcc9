"""One bad answer harms nobody else: the others are settled, and nothing is held for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from homing.domain.delivery import Content, Delivery, Receipt
from homing.domain.failure import Failure
from homing.engine.work.inbox import MAX_BATCH
from homing.engine.work.permits import MAX_UNSAVED_SENDS
from homing.engine.work.steps import SendStep
from homing.ports import Accepted, Answers, Batch, Done, Envelope, Outcome, Work
from homing.stores.memory import MemoryStore
from tests.unit.engine.providers import Flock, GroupSending, Provider, sending
from tests.unit.engine.world import World, quiet, route

BAD = "k7"


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    await world.engine.start()
    try:
        yield
    finally:
        await world.engine.stop(grace_s=0.0)


async def submitted(world: World, number: int = MAX_BATCH) -> dict[str, Delivery]:
    return {key: await world.submit(key) for key in (f"k{nth}" for nth in range(number))}


async def states(world: World, accepted: dict[str, Delivery]) -> dict[str, str]:
    return {key: (await world.get(one.id)).state for key, one in accepted.items()}


async def assert_only_the_bad_one_failed(world: World, accepted: dict[str, Delivery]) -> None:
    found = await states(world, accepted)
    assert found.pop(BAD) in ("pending", "failed")
    assert set(found.values()) == {"delivered"}
    [worker] = world.engine.workers.values()
    assert worker.held_ids == frozenset()
    assert world.engine.runner.permits.of(world.route).attempts.free == world.route.concurrency
    assert world.engine.runner.permits.of(world.route).sends.free == MAX_UNSAVED_SENDS


class Odd(Flock):
    """Is odd to one delivery and accepts all others at once."""

    def __init__(self, odd: Callable[[GroupSending, Callable[[Any], None]], None]) -> None:
        super().__init__()
        self.odd = odd
        self.bad_id = ""

    async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[GroupSending | Failure]:
        return [OddSending(self, envelope) for envelope in envelopes]


class OddSending(GroupSending):
    provider: Odd

    def start(self, told: Callable[[Accepted | Failure], None]) -> None:
        if self.envelope.delivery_id == self.provider.bad_id:
            self.provider.odd(self, told)
        else:
            told(Accepted(Receipt("n-1")))


def _raises(send: GroupSending, told: Callable[[Any], None]) -> None:
    raise OSError("broken")


def _twice(send: GroupSending, told: Callable[[Any], None]) -> None:
    told(Failure("deferred"))
    told(Failure("deferred again"))


ODDITIES: dict[str, Callable[[GroupSending, Callable[[Any], None]], None]] = {
    "answers None": lambda send, told: told(None),
    "answers garbage": lambda send, told: told("250 ok"),
    "raises in start": _raises,
    "answers twice": _twice,
}


@pytest.mark.parametrize("oddity", ODDITIES)
async def test_a_provider_that_answers_one_of_64_oddly(oddity: str) -> None:
    provider = Odd(ODDITIES[oddity])
    world = World(sending(provider))
    accepted = await submitted(world)
    provider.bad_id = accepted[BAD].id

    async with running(world):
        await world.until_told("succeed", MAX_BATCH - 1)
        await world.until_told("fail")
        await quiet()
        await assert_only_the_bad_one_failed(world, accepted)

    after = await world.get(accepted[BAD].id)
    assert after.maybe_sent == (oddity != "answers twice"), "maybe sent is never called not sent"


@pytest.mark.parametrize("bad", [None, "ready", 3])
async def test_a_provider_that_prepares_one_of_64_oddly(bad: object) -> None:
    class OddlyPrepared(Odd):
        async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[Any]:
            prepared = await super().prepare_some(envelopes)
            return [
                bad if envelope.delivery_id == self.bad_id else send
                for envelope, send in zip(envelopes, prepared, strict=True)
            ]

    provider = OddlyPrepared(_raises)
    world = World(sending(provider))
    accepted = await submitted(world)
    provider.bad_id = accepted[BAD].id

    async with running(world):
        await world.until_told("succeed", MAX_BATCH - 1)
        await world.until_told("fail")
        await quiet()
        await assert_only_the_bad_one_failed(world, accepted)

    assert not (await world.get(accepted[BAD].id)).maybe_sent


async def test_a_provider_that_raises_for_all_because_of_one() -> None:
    class Strict(Odd):
        async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[GroupSending | Failure]:
            if any(envelope.delivery_id == self.bad_id for envelope in envelopes):
                raise UnicodeError("no such address")
            return await super().prepare_some(envelopes)

    provider = Strict(_raises)
    world = World(sending(provider))
    accepted = await submitted(world)
    provider.bad_id = accepted[BAD].id

    async with running(world):
        await world.until_told("succeed", MAX_BATCH - 1)
        await world.until_told("fail")
        await quiet()
        await assert_only_the_bad_one_failed(world, accepted)


async def test_a_provider_that_prepares_none_at_all() -> None:
    class Empty(Flock):
        async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[GroupSending | Failure]:
            return []

    world = World(sending(Empty()))
    accepted = await submitted(world, 3)

    async with running(world):
        await world.until_told("fail", 3)

    assert set((await states(world, accepted)).values()) == {"pending"}


async def test_a_provider_of_single_sends_that_answers_oddly() -> None:
    class Once(Provider):
        async def take(self, envelope: Envelope) -> Accepted | Failure:
            return None  # type: ignore[return-value] # as a plugin may

    world = World(sending(Once()))
    accepted = await world.submit()

    await world.run()

    after = await world.get(accepted.id)
    assert after.failure is not None
    assert (after.failure.error_class, after.maybe_sent) == ("provider_error", True)


@pytest.mark.parametrize("bad", [None, "text", ValueError("a bug")])
async def test_bytes_that_cannot_be_composed(bad: object) -> None:
    def freeze(delivery: Delivery, content: Content) -> bytes | Failure:
        if delivery.key != BAD:
            return b"hello"
        if isinstance(bad, Exception):
            raise bad
        return bad  # type: ignore[return-value] # as a function of a user's may

    provider = Odd(_raises)
    world = World(sending(provider, step=SendStep(provider, freeze)))
    accepted = await submitted(world)

    async with running(world):
        await world.until_told("succeed", MAX_BATCH - 1)
        await world.until_told("fail")
        await quiet()
        await assert_only_the_bad_one_failed(world, accepted)


@pytest.mark.parametrize("sends", [True, False])
async def test_a_plan_that_has_lost_the_stage_of_one(sends: bool) -> None:
    world = World(sending(Odd(_raises)) if sends else route())
    accepted = await submitted(world)
    world.store.disk.put(replace(await world.get(accepted[BAD].id), stage="gone"))

    async with running(world):
        await world.until_told("succeed", MAX_BATCH - 1)
        await world.until_told("poison")
        await quiet()
        await assert_only_the_bad_one_failed(world, accepted)


@pytest.mark.parametrize("bad", [None, "text", ValueError("a bug")])
async def test_a_step_that_returns_or_raises_nonsense(bad: object) -> None:
    async def step(work: Work) -> Outcome:
        if work.delivery.key != BAD:
            return Done()
        if isinstance(bad, Exception):
            raise bad
        return bad  # type: ignore[return-value] # as a function of a user's may

    world = World(route(step=step))
    accepted = await submitted(world)

    async with running(world):
        await world.until_told("succeed", MAX_BATCH - 1)
        await world.until_told("fail")
        await quiet()
        await assert_only_the_bad_one_failed(world, accepted)


async def test_a_stage_without_a_step_is_a_failed_attempt() -> None:
    world = World(replace(route(), steps={}))
    accepted = await world.submit()

    await world.run()

    after = await world.get(accepted.id)
    assert after.failure is not None
    assert (after.state, after.failure.error_class) == ("pending", "LookupError")


async def test_an_outcome_that_cannot_be_encoded() -> None:
    class Picky(MemoryStore):
        async def commit(self, batch: Batch) -> Answers:
            if any(write.results for put in batch.puts for write in put.writes):
                raise TypeError("cannot be encoded")
            return await super().commit(batch)

    async def step(work: Work) -> Outcome:
        return Done(result=b"odd" if work.delivery.key == BAD else None)

    world = World(route(step=step), store=Picky())
    accepted = await submitted(world)

    async with running(world):
        await world.until_told("succeed", MAX_BATCH - 1)
        await quiet()
        found = await states(world, accepted)

    assert found.pop(BAD) == "in_flight", "its lease ends, and the next owner looks"
    assert set(found.values()) == {"delivered"}

"""A send whose record another program keeps goes the way of every send, and stores nothing."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from homing.domain.delivery import Delivery
from homing.domain.failure import TIMED_OUT, Failure
from homing.domain.message import Event
from homing.domain.policy import Stage
from homing.engine.intake.request import Request
from homing.engine.work.permits import MAX_UNSAVED_SENDS
from homing.engine.work.steps import SendStep, refuse
from homing.ports import Answers, Batch, Envelope, Query, Ready
from homing.stores.memory import MemoryStore
from tests.simulation.virtualtime import run
from tests.unit.engine.providers import Flock, Provider, sending
from tests.unit.engine.world import World, quiet

SOFT = Failure("deferred", code="451", detail="later")


class ReadOnly(MemoryStore):
    """Stores nothing, and counts how often it should."""

    refused = 0

    async def commit(self, batch: Batch) -> Answers:
        if batch.puts:
            self.refused += 1
            raise AssertionError(f"{batch.puts} was to be stored")
        return await super().commit(batch)


async def once(world: World) -> Delivery:
    request = Request(message=Event("paid", {"order": 1}))
    new = world.engine.admission.prepare(world.route, request)
    return await world.engine.runner.once(world.route, new)


async def test_it_is_sent_and_nothing_is_stored() -> None:
    provider = Provider()
    world = World(sending(provider), store=ReadOnly())

    tried = await once(world)

    assert (tried.state, tried.failure) == ("delivered", None)
    assert [envelope.delivery_id for envelope in provider.sent] == [tried.id]
    assert await world.store.count(Query()) == {(): 0}
    assert world.told == []


async def test_the_route_says_what_a_failure_is() -> None:
    def judge(problem: Exception | Failure, stage: Stage) -> Failure:
        assert isinstance(problem, Failure)
        return replace(problem, disposition="reject", detail=f"{stage.name}: {problem.detail}")

    route = replace(sending(Provider(SOFT)), judge=judge)

    tried = await once(World(route, store=ReadOnly()))

    assert tried.failure == Failure("deferred", "reject", code="451", detail="send: later")


async def test_what_cannot_be_packed_is_not_sent() -> None:
    provider = Provider()
    step = SendStep(provider, lambda *_: refuse("no_template", "there is no template"))

    tried = await once(World(sending(provider, step=step), store=ReadOnly()))

    assert tried.failure is not None
    assert (tried.failure.error_class, provider.sent) == ("no_template", [])


@pytest.mark.parametrize("may_have_left", [False, True])
def test_it_has_the_time_limit_of_its_stage(may_have_left: bool) -> None:
    async def main() -> Delivery:
        provider = Flock()
        provider.may_have_left = may_have_left
        return await once(World(sending(provider), store=ReadOnly()))

    failure = run(main()).failure

    assert failure is not None
    assert (failure.error_class, failure.maybe_sent) == (TIMED_OUT, may_have_left)


async def test_it_takes_a_permit_and_gives_it_back() -> None:
    provider = Flock()
    world = World(sending(provider), store=ReadOnly())
    permits = world.engine.runner.permits.of(world.route).sends
    await permits.take(MAX_UNSAVED_SENDS)
    waiting = asyncio.create_task(once(world))
    await quiet()
    assert provider.sent == []

    permits.give_back(1)
    await quiet()
    assert permits.free == 0
    provider.answer()

    assert (await waiting).state == "delivered"
    assert permits.free == 1


async def test_a_caller_who_goes_away_leaves_nothing_behind() -> None:
    provider, store = Flock(), ReadOnly()
    world = World(sending(provider), store=store)
    permits = world.engine.runner.permits.of(world.route).sends
    task = asyncio.create_task(once(world))
    await quiet()

    provider.answer()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await world.engine.saves.drain()

    assert task.cancelled()
    assert store.refused == 0
    assert permits.free == MAX_UNSAVED_SENDS


async def test_no_lease_can_run_out_while_it_is_prepared() -> None:
    class Slow(Provider):
        async def prepare(self, envelope: Envelope) -> Ready | Failure:
            world.clock.advance(world.route.lease_s)
            return await super().prepare(envelope)

    world = World(sending(Slow()))

    assert (await once(world)).state == "delivered"


async def test_a_process_that_others_take_for_dead_does_not_send(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider = Provider()
    world = World(sending(provider), store=ReadOnly())
    monkeypatch.setattr(type(world.engine.liveness), "is_fresh", False)

    failure = (await once(world)).failure

    assert failure is not None
    assert (failure.error_class, failure.maybe_sent) == ("interrupted", False)
    assert (provider.sent, provider.abandoned) == ([], 1)


async def test_a_stage_that_does_not_send_is_refused() -> None:
    with pytest.raises(TypeError, match="does not send"):
        await once(World(store=ReadOnly()))

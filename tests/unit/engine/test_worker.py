"""The worker of a route: claims in order, runs bounded attempts, stops gracefully."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from homing.domain.delivery import Receipt
from homing.domain.errors import StoreUnavailable
from homing.domain.failure import Failure
from homing.domain.policy import Stage
from homing.engine.work.worker import CLAIM_LIMIT, READ_AHEAD
from homing.ports import Accepted, Answers, Batch, Claim, Done, Envelope, Outcome, Work
from homing.stores.memory import MemoryStore
from homing.testing.clocks import DAY_S
from tests.unit.engine.providers import Provider, sending
from tests.unit.engine.world import FaultyStore, Patient, Script, World, quiet, route

SOFT = Failure("deferred", code="451")
FAULT = Failure("auth_failed", "route_fault", detail="bad credentials")


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    """The engine works in the background, and is stopped in the end."""
    await world.engine.start()
    try:
        yield
    finally:
        await world.engine.stop(grace_s=1.0)


async def test_what_is_accepted_while_it_runs_is_delivered() -> None:
    world = World(route())

    async with running(world):
        accepted = [await world.submit(str(number)) for number in range(20)]
        await world.until_told("succeed", 20)

    assert {(await world.get(d.id)).state for d in accepted} == {"delivered"}


async def test_what_was_claimed_starts_before_the_store_is_asked_what_comes_next() -> None:
    step = Script()
    started_before: list[int] = []

    class Asked(MemoryStore):
        async def next_due_ms(self, queues: Sequence[str]) -> int | None:
            started_before.append(len(step.seen))
            return await super().next_due_ms(queues)

    world = World(route(step=step), store=Asked())
    await world.submit("a")

    async with running(world):
        await world.until_told("succeed")

    assert started_before[0] == 1


async def test_by_priority_then_due_time() -> None:
    step = Script()
    world = World(route(step=step))
    for key, priority, due_in_ms in (("c", 2, 0), ("d", 4, -9), ("b", 1, 5), ("a", 1, 0)):
        accepted = await world.submit(key, priority=priority)
        stored = await world.get(accepted.id)
        world.store.disk.put(replace(stored, due_at_ms=world.now_ms + due_in_ms))

    await world.run(after_s=1)

    assert [delivery.key for delivery in step.seen] == ["a", "b", "c", "d"]


async def test_no_more_run_at_once_than_the_route_allows() -> None:
    step = Patient()
    world = World(route(step=step, concurrency=3))

    async with running(world):
        for number in range(10):
            await world.submit(str(number))
        await step.came.wait()
        await quiet()
        assert len(step.seen) == 3
        step.to_state.set()
        await world.until_told("succeed", 10)


class Watched(MemoryStore):
    """Remembers how it was asked for work."""

    def __init__(self) -> None:
        super().__init__()
        self.claims: list[Claim] = []

    async def commit(self, batch: Batch) -> Answers:
        self.claims += batch.claims
        return await super().commit(batch)


@pytest.mark.parametrize(("rules", "limit"), [({}, CLAIM_LIMIT), ({"interrupted_counts": True}, 4)])
async def test_it_reads_ahead_only_where_waiting_costs_nothing(
    rules: dict[str, Any], limit: int
) -> None:
    store = Watched()
    world = World(route(concurrency=4, rules=rules), store=store)

    await world.run()

    assert [claim.limit for claim in store.claims] == [limit]


async def test_it_claims_what_comes_next_before_it_works_on_what_it_has() -> None:
    store = Watched()
    claimed_before: list[int] = []

    async def step(work: Work) -> Outcome:
        claimed_before.append(len(store.claims))
        return Done()

    world = World(route(step=step), store=store)
    for number in range(2 * CLAIM_LIMIT):
        await world.submit(str(number))

    async with running(world):
        await world.until_told("succeed", 2 * CLAIM_LIMIT)

    assert claimed_before[0] == 2


async def test_it_holds_no_more_than_its_slots_and_what_it_reads_ahead() -> None:
    step, store = Patient(), Watched()
    world = World(route(step=step, concurrency=4), store=store)
    for number in range(READ_AHEAD + 10):
        await world.submit(str(number))

    async with running(world):
        await step.came.wait()
        await quiet()
        [worker] = world.engine.workers.values()
        assert len(worker.held_ids) == 2 * CLAIM_LIMIT <= 4 + READ_AHEAD
        step.to_state.set()
        await world.until_told("succeed", READ_AHEAD + 10)


async def test_what_a_living_process_holds_is_left_alone() -> None:
    there = World(route(), name="there")
    accepted = await there.submit()
    await there.engine.recover()
    await there.engine.workers["event"]._claim(1)

    here = World(route(), store=there.store, clock=there.clock, name="here")
    await here.engine.recover()
    here.clock.jump(DAY_S)

    assert await here.run() == 0
    assert (await here.get(accepted.id)).holder == "there"


async def test_i15_a_jump_of_the_clock_does_not_start_a_second_attempt() -> None:
    step = Patient()
    world = World(route(step=step))

    async with running(world):
        accepted = await world.submit()
        await step.came.wait()
        world.clock.jump(DAY_S)
        world.engine.wakeup.tell()
        await quiet()
        step.to_state.set()
        await world.until_told("succeed")

    assert len(step.seen) == 1
    assert (await world.get(accepted.id)).state == "delivered"


async def test_leases_of_what_is_in_hand_are_renewed() -> None:
    step = Patient()
    world = World(route(step=step))

    async with running(world):
        accepted = await world.submit()
        await step.came.wait()
        before = await world.get(accepted.id)
        world.clock.advance(world.route.lease_s * 0.5)
        await world.engine.workers["event"].renew_leases()
        after = await world.get(accepted.id)
        step.to_state.set()
        await world.until_told("succeed")

    assert before.due_at_ms is not None
    assert after.due_at_ms == before.due_at_ms + world.route.lease_s * 500
    assert after.version == before.version


async def test_a_stop_waits_for_what_runs() -> None:
    step = Patient()
    world = World(route(step=step))
    await world.engine.start()
    accepted = await world.submit()
    await step.came.wait()

    stopping = asyncio.ensure_future(world.engine.stop(grace_s=5.0))
    await quiet()
    assert not stopping.done()
    step.to_state.set()
    await stopping

    assert (await world.get(accepted.id)).state == "delivered"


async def test_a_stop_gives_back_what_it_has_not_finished() -> None:
    step = Patient()
    world = World(route(step=step, concurrency=1))
    await world.engine.start()
    accepted = [await world.submit(str(number)) for number in range(3)]
    await step.came.wait()

    await world.engine.stop(grace_s=0.0)

    for delivery in accepted:
        after = await world.get(delivery.id)
        assert (after.state, after.attempts_spent, after.crashes) == ("pending", 0, 0)
        assert after.attempts_ended == 0
    heir = World(route(), store=world.store, clock=world.clock, name="heir")
    assert await heir.run() == 3


async def test_a_stop_without_grace_gives_back_what_is_being_claimed() -> None:
    """Otherwise it would be held by a process that has ended."""
    claimed, may_answer = asyncio.Event(), asyncio.Event()

    class Slow(MemoryStore):
        async def commit(self, batch: Batch) -> Answers:
            answers = await super().commit(batch)
            if any(answers.claims):
                claimed.set()
                await may_answer.wait()
            return answers

    world = World(route(), store=Slow())
    accepted = await world.submit()
    await world.engine.start()
    await claimed.wait()

    stopping = asyncio.ensure_future(world.engine.stop(grace_s=0.0))
    await quiet()
    may_answer.set()
    await stopping

    after = await world.get(accepted.id)
    assert (after.state, after.holder, after.attempts_spent) == ("pending", None, 0)


class Stuck(Provider):
    """Takes the message and never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.sent_one = asyncio.Event()

    async def take(self, envelope: Envelope) -> Accepted | Failure:
        self.sent_one.set()
        await asyncio.Event().wait()
        return Accepted(Receipt("never"))


async def test_i7_a_stop_in_the_middle_of_a_send_leaves_the_doubt() -> None:
    provider = Stuck()
    world = World(sending(provider, on_unknown="hold"))
    await world.engine.start()
    accepted = await world.submit()
    await provider.sent_one.wait()

    await world.engine.stop(grace_s=0.0)

    held = await world.get(accepted.id)
    assert (held.state, held.committing) == ("in_flight", True)
    heir = World(
        sending(Provider(), on_unknown="hold"), store=world.store, clock=world.clock, name="heir"
    )
    await heir.run(after_s=world.route.lease_s)
    assert (await heir.get(accepted.id)).failed_because == "uncertain"


async def test_a_stopped_process_leaves_no_heartbeat() -> None:
    world = World(route())
    async with running(world):
        assert len(await world.store.facts("worker")) == 1

    assert await world.store.facts("worker") == []


async def test_no_surprise_ends_a_slot() -> None:
    def judge(problem: Exception | Failure, stage: Stage) -> Failure:
        raise RuntimeError("a bug in the table")

    step = Script(ValueError("x"), None, ValueError("y"))
    world = World(route(step=step, concurrency=1, judge=judge))

    async with running(world):
        accepted = [await world.submit(str(number)) for number in range(4)]
        await world.until_told("succeed")

    states = [(await world.get(delivery.id)).state for delivery in accepted]
    assert sorted(states) == ["delivered", "pending", "pending", "pending"]


async def test_a_store_that_is_down_for_a_while_stops_nobody() -> None:
    store = FaultyStore()
    world = World(route(), store=store)
    accepted = await world.submit()
    store.before["claim"].append(StoreUnavailable("down"))

    async with running(world):
        await quiet()
        world.engine.wakeup.tell()
        await world.until_told("succeed")

    assert (await world.get(accepted.id)).state == "delivered"


async def test_i19_a_route_stays_paused_whatever_its_messages_met_before() -> None:
    step = Script(SOFT, FAULT)
    world = World(route(step=step, concurrency=1))
    accepted = await world.submit()

    async with running(world):
        await world.until_told("fail", 1)
        world.clock.advance(60)
        world.engine.wakeup.tell()
        await world.until_told("fail", 2)
        await quiet()
        assert world.engine.pausing.may_probe("event")

    after = await world.get(accepted.id)
    assert (after.state, after.attempts_spent, len(step.seen)) == ("pending", 1, 2)


async def test_i19_one_probe_at_a_time_and_the_first_good_answer_opens_the_route() -> None:
    step = Script(FAULT, FAULT)
    world = World(route(step=step, concurrency=1, probe_every_s=30.0))
    for number in range(5):
        await world.submit(str(number))

    async with running(world):
        for probes in (1, 2):
            await world.until_told("fail", probes)
            world.engine.wakeup.tell()
            await quiet()
            assert len(step.seen) == probes, "what was read ahead is not tried"
            world.clock.advance(30)
            world.engine.wakeup.tell()
        await world.until_told("succeed", 5)

    assert not world.engine.pausing.is_paused("event")
    assert await world.store.facts("paused") == []


@pytest.mark.parametrize("answer", [FAULT, Failure("connect_failed"), Failure("timed_out")])
async def test_a_probe_that_shows_nothing_new_leaves_the_pause_as_it_is(answer: Failure) -> None:
    """Neither what the probed message met before, nor a silent server, ends the pause."""
    provider = Provider(SOFT, FAULT, answer)
    world = World(replace(sending(provider), concurrency=1, probe_every_s=30.0))
    await world.submit("met another failure before")

    async with running(world):
        await world.until_told("fail", 1)
        await world.submit("finds the fault")
        await world.until_told("fail", 2)
        await quiet()
        before = await world.store.facts("paused")
        world.clock.advance(60)
        world.engine.wakeup.tell()
        await world.until_told("fail", 3)
        await quiet()
        after = await world.store.facts("paused")

    assert len(before) == 1
    assert after == before


async def test_a_probe_of_a_stage_before_the_send_does_not_open_the_route() -> None:
    render, provider = Script(), Provider(FAULT, FAULT)
    only = sending(provider)
    stages = (replace(only.plan.first_stage, name="render", sends=False), only.plan.first_stage)
    world = World(
        replace(
            only,
            plan=replace(only.plan, stages=stages),
            steps={"render": render, **only.steps},
            concurrency=1,
            probe_every_s=30.0,
        )
    )
    await world.submit("finds the fault")

    async with running(world):
        await world.until_told("fail", 1)
        await world.submit("is rendered by a probe")
        await quiet()
        before = await world.store.facts("paused")
        world.clock.advance(30)
        world.engine.wakeup.tell()
        await world.until_told("advance", 2)
        await quiet()
        assert await world.store.facts("paused") == before
        assert len(before) == 1
        assert len(provider.sent) == 1


async def test_i19_one_message_that_is_blamed_on_the_route_does_not_stop_it() -> None:
    """The probe is another message than the one that found the fault."""
    step = Script(FAULT)
    world = World(route(step=step, concurrency=1, probe_every_s=30.0))
    blamed, other = await world.submit("blamed"), await world.submit("other")

    async with running(world):
        await world.until_told("fail", 1)
        await quiet()
        world.clock.advance(30)
        world.engine.wakeup.tell()
        await world.until_told("succeed", 2)

    assert [seen.id for seen in step.seen] == [blamed.id, other.id, blamed.id]


async def test_a_route_that_is_worked_off_elsewhere_claims_nothing() -> None:
    world = World(route(concurrency=0))
    accepted = await world.submit("k")

    async with running(world):
        await quiet()

    assert (await world.get(accepted.id)).state == "pending"

"""The work that a worker holds: what it believes of a lease is what the store has."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import copy

import pytest
from msgspec.structs import replace

from homing.domain.failure import Failure
from homing.domain.policy import Plan
from homing.engine.commit.group_commit import GroupCommit
from homing.engine.process.liveness import PATIENCE_S
from homing.engine.work.claimed_work import ClaimedWork
from homing.engine.work.held_work import HeldWork
from homing.ports import Answers, Batch, Envelope
from homing.stores.memory import MemoryStore
from homing.testing.clocks import ManualClock
from tests.unit.engine.providers import Flock, GroupSending, sending
from tests.unit.engine.world import World, quiet, saved, stage


class SlowMarks(MemoryStore):
    """A mark is on its way until it is let through; so is the answer to a renewal."""

    def __init__(self) -> None:
        super().__init__()
        self.marking = asyncio.Event()
        self.let_marks_through = asyncio.Event()
        self.let_answers_through = asyncio.Event()

    async def commit(self, batch: Batch) -> Answers:
        if any(delivery.committing for delivery in saved(batch)):
            self.marking.set()
            await self.let_marks_through.wait()
        answers = await super().commit(batch)
        if batch.renewals:
            await self.let_answers_through.wait()
        return answers


class Slow(Flock):
    """Preparing takes its time, and ends when it is told to."""

    def __init__(self, clock: ManualClock, takes_s: float) -> None:
        super().__init__()
        self.clock = clock
        self.takes_s = takes_s
        self.prepared = asyncio.Event()

    async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[GroupSending | Failure]:
        self.clock.advance(self.takes_s)
        await self.prepared.wait()
        return await super().prepare_some(envelopes)


async def sending_one(timeout_s: float, prepared_after_s: float) -> tuple[World, SlowMarks, Slow]:
    """A process that has claimed one delivery and prepares to send it."""
    clock, store = ManualClock(), SlowMarks()
    provider = Slow(clock, prepared_after_s)
    plan = Plan(stages=(stage("send", sends=True, timeout_s=timeout_s),))
    world = World(replace(sending(provider), plan=plan), store=store, clock=clock)
    await world.submit()
    await world.engine.start()
    await quiet()
    return world, store, provider


def held_by(world: World) -> ClaimedWork:
    [work] = world.engine.workers["mail"]._held.all()
    return work


async def believed_and_stored_s(world: World, work: ClaimedWork) -> tuple[float, float]:
    """How long its lease still lasts."""
    due_at_ms = (await world.get(work.delivery.id)).due_at_ms
    assert due_at_ms is not None
    return work.lease_end_s - world.clock.steady_s(), (due_at_ms - world.now_ms) / 1000


async def test_i12_no_lease_is_renewed_while_a_mark_that_would_undo_it_is_on_its_way() -> None:
    world, store, provider = await sending_one(timeout_s=30.0, prepared_after_s=10.0)
    work = held_by(world)
    store.let_answers_through.set()
    provider.prepared.set()
    await store.marking.wait()
    world.clock.advance(12.0)

    await world.engine.workers["mail"].renew_leases()
    store.let_marks_through.set()
    await quiet()

    believed_s, stored_s = await believed_and_stored_s(world, work)
    assert believed_s <= stored_s
    await world.engine.stop(grace_s=0.0)


async def test_i12_a_heartbeat_after_a_pause_lets_no_send_of_before_the_pause_start() -> None:
    world, store, provider = await sending_one(timeout_s=5.0, prepared_after_s=0.0)
    provider.prepared.set()
    await store.marking.wait()
    world.clock.advance(PATIENCE_S)  # others have taken it for dead, and its work over

    await world.engine.liveness.beat()
    store.let_marks_through.set()
    await quiet()

    assert provider.sent == []
    await world.engine.stop(grace_s=0.0)


async def test_no_lease_is_renewed_while_the_note_of_an_interruption_is_on_its_way() -> None:
    class SlowNotes(MemoryStore):
        async def commit(self, batch: Batch) -> Answers:
            if any(delivery.interruption_noted for delivery in saved(batch)):
                noting.set()
                await let_through.wait()
            return await super().commit(batch)

    noting, let_through = asyncio.Event(), asyncio.Event()
    world = World(sending(Flock()), store=SlowNotes())
    accepted = await world.submit()
    await world.crash_of_another(accepted.id)
    await world.engine.start()
    await noting.wait()
    work = held_by(world)
    world.clock.advance(world.route.lease_s / 2)

    await world.engine.workers["mail"].renew_leases()
    let_through.set()
    await quiet()

    believed_s, stored_s = await believed_and_stored_s(world, work)
    assert believed_s <= stored_s
    await world.engine.stop(grace_s=0.0)


@pytest.mark.parametrize("mark_is_stored_first", [False, True])
async def test_i12_a_renewal_that_is_answered_after_the_mark_was_made_counts_for_nothing(
    mark_is_stored_first: bool,
) -> None:
    world, store, provider = await sending_one(timeout_s=5.0, prepared_after_s=13.0)
    work = held_by(world)
    renewing = asyncio.create_task(world.engine.workers["mail"].renew_leases())
    await quiet()  # the longer lease is stored, and its answer is on the way
    provider.prepared.set()
    await store.marking.wait()

    if mark_is_stored_first:
        store.let_marks_through.set()
        await quiet()
    store.let_answers_through.set()
    await renewing
    store.let_marks_through.set()
    await quiet()

    believed_s, stored_s = await believed_and_stored_s(world, work)
    assert believed_s <= stored_s
    await world.engine.stop(grace_s=0.0)


async def test_the_end_of_a_lost_claim_does_not_end_a_newer_one_of_the_same_delivery() -> None:
    world, _, _ = await sending_one(timeout_s=5.0, prepared_after_s=0.0)
    earlier = held_by(world)
    newer = copy(earlier)
    held = HeldWork(earlier.process, earlier.route, GroupCommit(world.store))
    held.add([earlier])
    held.add([newer])

    held.forget([earlier])

    assert (held.all(), held.size) == ([newer], newer.size)
    held.forget([newer])
    assert (len(held), held.size) == (0, 0)
    await world.engine.stop(grace_s=0.0)

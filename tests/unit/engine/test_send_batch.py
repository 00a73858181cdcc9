"""A batch of sends: marked by one write, answered and settled each by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from homing.domain.delivery import Delivery, Receipt
from homing.domain.errors import StoreUnavailable
from homing.domain.failure import Failure
from homing.domain.message import Event
from homing.engine.intake.admission import Request
from homing.engine.route import Route
from homing.engine.work.inbox import MAX_BATCH
from homing.engine.work.permits import MAX_UNSAVED_SENDS, OWN_PERMITS
from homing.engine.work.send_batch import SETTLE_WITHIN_S
from homing.engine.work.steps import SendStep
from homing.ports import Accepted, Answers, Batch, Envelope
from homing.stores.memory import MemoryStore
from homing.testing.clocks import moment
from tests.simulation.virtualtime import run
from tests.unit.engine.providers import Flock, GroupSending, sending
from tests.unit.engine.world import FaultyStore, World, quiet, saved

SOFT = Failure("deferred", code="451")
FAULT = Failure("auth_failed", "route_fault", detail="bad credentials")


class Watched(MemoryStore):
    """Remembers what was saved together."""

    def __init__(self) -> None:
        super().__init__()
        self.saves: list[list[str]] = []

    async def commit(self, batch: Batch) -> Answers:
        states = ["mark" if one.committing else one.state for one in saved(batch)]
        if states:
            self.saves.append(states)
        return await super().commit(batch)


@asynccontextmanager
async def running(world: World, *keys: str) -> AsyncIterator[list[Delivery]]:
    """With these accepted before the worker starts, so that one claim finds them all."""
    accepted = [await world.submit(key) for key in keys]
    await world.engine.start()
    await quiet()
    try:
        yield accepted
    finally:
        await world.engine.stop(grace_s=0.0)


def names(number: int) -> list[str]:
    return [f"k{nth}" for nth in range(number)]


async def test_a_claimed_group_is_marked_by_one_write_and_settled_by_one() -> None:
    provider, store = Flock(), Watched()
    world = World(sending(provider), store=store)

    async with running(world, *names(20)) as accepted:
        assert len(provider.sent) == 20
        assert store.saves == [["mark"] * 20]
        provider.answer(20)
        await world.until_told("succeed", 20)

    assert store.saves == [["mark"] * 20, ["delivered"] * 20]
    states = {(await world.get(one.id)).state for one in accepted}
    assert states == {"delivered"}


async def test_the_frozen_bytes_are_stored_with_the_mark() -> None:
    provider = Flock()
    world = World(sending(provider))

    async with running(world, "k") as [accepted]:
        content = await world.store.content(accepted.id)
        assert content is not None
        assert content.results["frozen"] == provider.sent[0].data


async def test_a_slow_answer_holds_nobody_up() -> None:
    provider = Flock()
    world = World(sending(provider))

    async with running(world, *names(3)) as accepted:
        provider.waiting.rotate(-1)
        provider.answer(2)
        await world.until_told("succeed", 2)
        assert (await world.get(accepted[0].id)).committing


async def test_outcomes_and_the_marks_of_the_next_group_share_a_write() -> None:
    provider, store = Flock(), Watched()
    world = World(sending(provider), store=store)

    async with running(world, *names(MAX_BATCH + 6)):
        provider.answer(MAX_BATCH)
        await world.until_told("succeed", MAX_BATCH)
        assert len(provider.sent) == MAX_BATCH + 6

    assert store.saves[:2] == [
        ["mark"] * MAX_BATCH,
        ["delivered"] * MAX_BATCH + ["mark"] * 6,
    ]


async def test_the_next_batch_is_packed_while_one_is_sent() -> None:
    packed: list[str | None] = []

    def freeze(delivery: Delivery, content: object) -> bytes:
        packed.append(delivery.key)
        return b"hello"

    provider = Flock()
    world = World(sending(provider, step=SendStep(provider, freeze)))

    async with running(world, *names(3 * MAX_BATCH)):
        assert len(provider.sent) == MAX_BATCH
        assert packed == names(2 * MAX_BATCH)
        for _ in range(3):
            provider.answer(len(provider.waiting))
            await world.until_told("succeed", len(provider.sent))
            await quiet()

    assert packed == names(3 * MAX_BATCH)
    assert len(provider.sent) == 3 * MAX_BATCH


async def test_what_was_packed_of_another_delivery_is_packed_again() -> None:
    seen: list[str | None] = []

    def freeze(delivery: Delivery, content: object) -> bytes:
        seen.append(delivery.key)
        return b"hello"

    provider = Flock()
    world = World(sending(provider, step=SendStep(provider, freeze)))

    async with running(world, *names(MAX_BATCH), "next"):
        [worker] = world.engine.workers.values()
        [held] = [work for work in worker._held.all() if work.delivery.key == "next"]
        held.delivery = replace(held.delivery, due_at_ms=world.now_ms + 60_000)  # a renewed lease
        provider.answer(MAX_BATCH)
        await world.until_told("succeed", MAX_BATCH)
        await quiet()
        provider.answer()
        await world.until_told("succeed", MAX_BATCH + 1)

    assert seen == [*names(MAX_BATCH), "next", "next"]


async def test_answers_that_are_settled_together_get_one_time() -> None:
    provider = Flock()
    world = World(sending(provider))

    async with running(world, *names(3)) as accepted:
        for _ in range(3):
            world.clock.advance(0.001)
            provider.answer()
        await world.until_told("succeed", 3)

    ended_at_ms = {(await world.get(one.id)).ended_at_ms for one in accepted}
    assert ended_at_ms == {world.now_ms}


async def test_no_more_than_its_bound_are_sent_and_not_saved() -> None:
    provider = Flock()
    world = World(sending(provider))

    async with running(world, *names(3 * MAX_BATCH)):
        assert len(provider.sent) == MAX_BATCH
        provider.answer(MAX_BATCH - 1)
        await world.until_told("succeed", MAX_BATCH - 1)
        await quiet()
        assert len(provider.waiting) == MAX_BATCH


async def test_those_without_room_wait_unmarked_and_come_next_in_their_order() -> None:
    provider, store = Flock(room=2), Watched()
    world = World(sending(provider), store=store)

    async with running(world, *names(5)) as accepted:
        await world.until_told("mark_committing", 5)
        assert [envelope.delivery_id for envelope in provider.sent] == [one.id for one in accepted]

    assert provider.asked == [5, 3, 1]
    assert store.saves[:2] == [["mark"] * 2, ["mark"] * 3]


async def test_who_waits_for_a_server_keeps_no_other_route_from_sending() -> None:
    class Hung(Flock):
        async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[GroupSending | Failure]:
            self.asked.append(len(envelopes))
            await asyncio.Event().wait()
            return []

    hung, good = Hung(), Flock()
    other = replace(sending(good), name="other")
    world = World(sending(hung), other)
    for key in names(MAX_BATCH):
        await world.submit(key)
    requests = [Request(message=Event("paid", {}), key=f"other {key}") for key in names(3)]
    await world.engine.admission.submit(other, requests)

    async with running(world):
        assert hung.asked == [MAX_BATCH]
        assert len(good.sent) == 3


def two_routes(*providers: Flock) -> list[Route]:
    names = ("mail", "other")
    return [
        replace(sending(provider), name=name)
        for name, provider in zip(names, providers, strict=True)
    ]


async def submit_to(world: World, route: Route, number: int) -> None:
    requests = [
        Request(message=Event("paid", {}), key=f"{route.name} {key}") for key in names(number)
    ]
    await world.engine.admission.submit(route, requests)


async def test_a_mute_server_of_one_route_does_not_hold_up_another() -> None:
    mute, good = Flock(), Flock()
    routes = two_routes(mute, good)
    world = World(*routes)
    await submit_to(world, routes[0], 2 * MAX_BATCH)

    async with running(world):
        assert len(mute.sent) == MAX_UNSAVED_SENDS - OWN_PERMITS
        await submit_to(world, routes[1], 3 * OWN_PERMITS)
        for _ in range(3):
            await quiet()
            good.answer(len(good.waiting))
        await world.until_told("succeed", 3 * OWN_PERMITS)


async def test_two_routes_share_the_permits_of_the_process() -> None:
    first, second = Flock(), Flock()
    routes = two_routes(first, second)
    world = World(*routes)
    for route in routes:
        await submit_to(world, route, MAX_BATCH)

    async with running(world):
        assert len(first.sent) + len(second.sent) == MAX_UNSAVED_SENDS
        first.answer(len(first.waiting))
        second.answer(len(second.waiting))
        await world.until_told("mark_committing", 2 * MAX_BATCH)
        await quiet()
        assert len(first.waiting) + len(second.waiting) == MAX_UNSAVED_SENDS


async def test_each_gets_the_answer_that_it_was_given() -> None:
    provider = Flock(Accepted(Receipt("n-1")), SOFT, Failure("refused", "reject", code="550"))
    world = World(sending(provider))

    async with running(world, *names(3)) as accepted:
        provider.answer(3)
        await world.until_told("succeed")
        await world.until_told("fail", 2)

    after = [await world.get(one.id) for one in accepted]
    assert [one.state for one in after] == ["delivered", "pending", "failed"]
    assert after[0].receipt == Receipt("n-1", world.now_ms)


async def test_a_refusal_in_prepare_is_settled_without_a_mark() -> None:
    class Locked(Flock):
        async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[GroupSending | Failure]:
            return [FAULT for _ in envelopes]

    provider, store = Locked(), Watched()
    world = World(sending(provider), store=store)

    async with running(world, *names(3)) as accepted:
        await world.until_told("fail", 3)
        assert world.engine.pausing.is_paused("mail")

    assert store.saves[0] == ["pending"] * 3
    assert (await world.get(accepted[0].id)).attempts_spent == 0


async def test_i11_of_a_group_only_those_are_sent_whose_claim_still_holds() -> None:
    class Slow(Flock):
        async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[GroupSending | Failure]:
            await world.crash_of_another(envelopes[1].delivery_id)
            return await super().prepare_some(envelopes)

    provider = Slow()
    world = World(sending(provider))

    async with running(world, *names(3)) as accepted:
        sent = [send.envelope.delivery_id for send in provider.waiting]
        assert sent == [accepted[0].id, accepted[2].id]
        assert provider.abandoned == 1


async def test_i12_of_a_group_none_is_sent_that_might_outlast_its_lease() -> None:
    class SlowStore(MemoryStore):
        async def commit(self, batch: Batch) -> Answers:
            if any(delivery.committing for delivery in saved(batch)):
                world.clock.advance(world.route.lease_s)
            return await super().commit(batch)

    provider = Flock()
    world = World(sending(provider), store=SlowStore())

    async with running(world, *names(3)):
        assert (provider.sent, provider.abandoned) == ([], 3)


async def test_a_store_that_refuses_the_marks_lets_nothing_be_sent() -> None:
    class Unlucky(Flock):
        async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[GroupSending | Failure]:
            store.before["save"].append(StoreUnavailable("down"))
            return await super().prepare_some(envelopes)

    provider, store = Unlucky(), FaultyStore()
    world = World(sending(provider), store=store)

    async with running(world, *names(3)):
        assert provider.sent == []
        await world.until_told("mark_committing", 3)  # it came back within the lease
        await quiet()
        assert len(provider.sent) == 3


def test_a_send_that_is_withdrawn_before_its_bytes_left_was_not_sent() -> None:
    async def main() -> None:
        provider = Flock()
        provider.may_have_left = False
        world = World(sending(provider))

        async with running(world, "ann") as [accepted]:
            await asyncio.sleep(world.route.lease_s)

        after = await world.get(accepted.id)
        assert after.failure is not None
        assert (after.state, after.maybe_sent, after.failure.error_class) == (
            "pending",
            False,
            "timed_out",
        )

    run(main())


def test_the_time_limit_does_not_run_while_the_mark_is_written() -> None:
    class SlowStore(MemoryStore):
        async def commit(self, batch: Batch) -> Answers:
            if any(delivery.committing for delivery in saved(batch)):
                await asyncio.sleep(stage.timeout_s + 1)
            return await super().commit(batch)

    async def main() -> None:
        world = World(route, store=SlowStore())
        async with running(world, "ann") as [accepted]:
            await asyncio.sleep(stage.timeout_s + 2)
            provider.answer()
            await world.until_told("succeed")

        assert (await world.get(accepted.id)).state == "delivered"

    provider = Flock()
    route = sending(provider)
    [stage] = route.plan.stages
    run(main())


def test_the_time_of_a_send_is_over_and_that_is_not_called_not_sent() -> None:
    async def main() -> None:
        provider = Flock()
        world = World(sending(provider))

        async with running(world, *names(2)) as accepted:
            provider.answer(1)
            await asyncio.sleep(world.route.lease_s)
            [late] = provider.waiting
            late.tell()  # nobody listens any more
            await quiet()

        after = [await world.get(one.id) for one in accepted]
        assert [(one.state, one.maybe_sent) for one in after] == [
            ("delivered", False),
            ("pending", True),
        ]
        assert late.withdrawn

    run(main())


def test_the_time_is_over_before_the_mark_and_nothing_was_sent() -> None:
    class Hung(Flock):
        async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[GroupSending | Failure]:
            await asyncio.Event().wait()
            return []

    async def main() -> None:
        provider = Hung()
        world = World(sending(provider))

        async with running(world, "k") as [accepted]:
            await asyncio.sleep(world.route.lease_s)

        after = await world.get(accepted.id)
        assert (after.state, after.maybe_sent, after.attempts_spent) == ("pending", False, 1)
        assert provider.sent == []

    run(main())


@pytest.mark.parametrize("concurrency", [1, 5])
async def test_no_more_go_at_once_than_the_route_allows(concurrency: int) -> None:
    provider = Flock()
    world = World(replace(sending(provider), concurrency=concurrency))

    async with running(world, *names(12)):
        assert len(provider.sent) == concurrency
        provider.answer(concurrency)
        await world.until_told("succeed", concurrency)
        await quiet()
        assert len(provider.waiting) == concurrency


async def test_slots_and_groups_share_what_the_route_allows() -> None:
    provider = Flock()
    world = World(replace(sending(provider), concurrency=1))
    suspect = await world.submit("suspect")
    world.store.disk.put(replace(await world.get(suspect.id), crashes=1))

    async with running(world, "k"):
        for _ in range(2):
            if provider.waiting:
                provider.answer(1)
            await quiet()
        await world.until_told("succeed", 2)

    assert len(provider.sent) == 2


async def test_i7_a_stop_in_the_middle_leaves_the_doubt_and_gives_back_the_rest() -> None:
    provider = Flock(room=1)
    world = World(sending(provider, on_unknown="hold"))
    accepted = [await world.submit(key) for key in names(MAX_BATCH + 2)]
    provider.room = MAX_BATCH
    await world.engine.start()
    await quiet()

    await world.engine.stop(grace_s=0.0)

    after = [await world.get(one.id) for one in accepted]
    assert [one.committing for one in after] == [True] * MAX_BATCH + [False] * 2
    assert [one.state for one in after[-2:]] == ["pending", "pending"]
    assert all(send.withdrawn for send in provider.waiting)


async def test_a_stop_settles_what_is_answered() -> None:
    provider = Flock()
    world = World(sending(provider))
    accepted = [await world.submit(key) for key in names(2)]
    await world.engine.start()
    await quiet()
    provider.answer(1)

    await world.engine.stop(grace_s=0.0)

    assert [(await world.get(one.id)).state for one in accepted] == ["delivered", "in_flight"]


async def test_what_is_in_doubt_goes_its_own_way() -> None:
    provider = Flock()
    world = World(sending(provider, on_unknown="hold"))
    accepted = await world.submit("k")
    await world.crash_of_another(accepted.id, committing=True)
    world.clock.advance(1)

    async with running(world):
        await world.until_told("hold")

    assert provider.sent == []
    assert (await world.get(accepted.id)).failed_because == "uncertain"


async def test_what_has_expired_or_cannot_be_rendered_gets_its_verdict_elsewhere() -> None:
    def freeze(delivery: Delivery, content: object) -> bytes | Failure:
        if delivery.key == "raises":
            raise ValueError("a bug in the template")
        return Failure("template_missing", "reject") if delivery.key == "fails" else b"hello"

    provider = Flock()
    world = World(sending(provider, step=SendStep(provider, freeze)))
    gone = await world.submit("gone", expires_at=moment(world.now_ms + 1))
    world.clock.advance(1)

    async with running(world, "raises", "fails", "good") as others:
        await world.until_told("fail", 2)
        await world.until_told("expire")

    assert (await world.get(gone.id)).failed_because == "expired"
    after = [await world.get(one.id) for one in others]
    classes = [one.failure and one.failure.error_class for one in after]
    assert classes == ["ValueError", "template_missing", None]
    assert [envelope.data for envelope in provider.sent] == [b"hello"]


async def test_a_suspect_is_not_in_one_batch_with_healthy_ones() -> None:
    provider = Flock()
    world = World(sending(provider))
    suspect = await world.submit("suspect")
    await world.crash_of_another(suspect.id)
    world.clock.advance(1)

    async with running(world, "k1", "k2"):
        assert sorted(provider.asked) == [1, 2]
        provider.answer(3)
        await world.until_told("succeed", 3)


async def test_a_send_that_cannot_even_start_may_have_been_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(self: GroupSending, told: object) -> None:
        raise OSError("broken")

    monkeypatch.setattr(GroupSending, "start", start)
    world = World(sending(Flock()))

    async with running(world, "k") as [accepted]:
        await world.until_told("fail")

    after = await world.get(accepted.id)
    assert (after.state, after.maybe_sent) == ("pending", True)


def test_answers_that_come_long_after_one_that_was_settled_at_once_are_heard() -> None:
    class FirstRaises(Flock):
        async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[GroupSending | Failure]:
            sends = [GroupSending(self, envelope) for envelope in envelopes]
            sends[0].start = raising  # type: ignore[method-assign] # of this one alone
            return list(sends)

    def raising(told: object) -> None:
        raise OSError("broken")

    async def main() -> None:
        provider = FirstRaises()
        world = World(sending(provider))

        async with running(world, *names(3)) as accepted:
            await world.until_told("fail")
            await asyncio.sleep(10 * SETTLE_WITHIN_S)
            provider.answer(2)
            await world.until_told("succeed", 2)
            await quiet()

        states = [(await world.get(one.id)).state for one in accepted]
        assert states == ["pending", "delivered", "delivered"]

    run(main())

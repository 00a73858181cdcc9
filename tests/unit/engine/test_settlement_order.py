"""Outcomes are written in order, one group at a time, and nothing happens after a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest

from homing.domain.delivery import Delivery
from homing.domain.errors import StoreOutcomeUnknown, StoreUnavailable
from homing.engine.commit import settlement
from homing.ports import Answers, Batch
from homing.testing import samples
from homing.testing.contract.foreign import foreign_projection
from tests.simulation.virtualtime import run
from tests.unit.engine.desk import LEASE_S, Desk, success
from tests.unit.engine.world import FaultyStore, quiet, saved


class SlowStore(FaultyStore):
    """Writes down whose saves it was asked for and when, and waits while it must."""

    def __init__(self) -> None:
        super().__init__()
        self.saves: list[list[str]] = []
        self.asked_at_s: list[float] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.may_read = asyncio.Event()
        self.may_read.set()

    async def commit(self, batch: Batch) -> Answers:
        if ids := [delivery.id for delivery in saved(batch)]:
            self.saves.append(ids)
            self.asked_at_s.append(asyncio.get_running_loop().time())
            await self.may_answer.wait()
        return await super().commit(batch)

    async def get(self, delivery_id: str) -> Delivery | None:
        await self.may_read.wait()
        return await super().get(delivery_id)


async def slow(*names: str) -> tuple[Desk, SlowStore, list[Delivery]]:
    store = SlowStore()
    desk = Desk(store=store)
    return desk, store, await desk.claimed(*names)


def put(desk: Desk, *held: Delivery) -> None:
    for one in held:
        desk.settler.put(desk.settlement(success(one), must_keep=True))


async def test_what_was_refused_is_written_before_what_came_later() -> None:
    desk, store, [first, second] = await slow("d1", "d2")
    store.before["save"].append(StoreUnavailable("locked"))
    store.may_answer.clear()
    put(desk, first)
    await quiet()
    put(desk, second)
    store.may_answer.set()

    await desk.settler.drain()

    assert store.saves == [["d1"], ["d1", "d2"]]
    assert [str(error) for error in desk.met] == ["locked"]


def test_a_batch_of_others_takes_nothing_past_a_refused_outcome() -> None:
    async def main() -> list[list[str]]:
        desk, store, [first, second] = await slow("d1", "d2")
        store.before["save"].append(StoreUnavailable("locked"))
        put(desk, first)
        await quiet()
        put(desk, second)
        await desk.commits.claim(samples.claim())
        assert store.saves == [["d1"]]
        await desk.settler.drain()
        return store.saves

    assert run(main()) == [["d1"], ["d1", "d2"]]


async def test_one_group_is_written_at_a_time() -> None:
    desk, store, [first, second] = await slow("d1", "d2")
    store.may_answer.clear()
    put(desk, first)
    await quiet()
    put(desk, second)
    await quiet()
    assert store.saves == [["d1"]]

    store.may_answer.set()
    await desk.settler.drain()

    assert store.saves == [["d1"], ["d2"]]


async def test_a_drain_waits_for_what_is_being_written() -> None:
    desk, store, [held] = await slow("d1")
    store.may_answer.clear()
    put(desk, held)
    await quiet()

    draining = asyncio.ensure_future(desk.settler.drain())
    await quiet()
    assert not draining.done()

    store.may_answer.set()
    await draining
    assert [save.kept for save in desk.told] == [True]


async def test_at_a_stop_a_refused_save_is_not_repeated() -> None:
    desk, store, [held] = await slow("d1")
    store.before["save"].append(StoreUnavailable("locked"))
    put(desk, held)

    await desk.settler.drain(within_s=LEASE_S)

    assert store.saves == [["d1"]]
    assert [change.delivery.id for change in desk.journal.kept] == ["d1"]


async def test_after_a_stop_nothing_is_written_or_told() -> None:
    """What the journal has is stored at the next start."""
    desk, store, [first, second] = await slow("d1", "d2")
    store.may_answer.clear()
    put(desk, first)
    await quiet()
    put(desk, second)
    await desk.settler.drain(within_s=0.0)
    assert [change.delivery.id for change in desk.journal.kept] == ["d1", "d2"]

    store.may_answer.set()
    await quiet()
    await desk.commits.claim(samples.claim())

    assert store.saves == [["d1"]]
    assert desk.told == []


def test_a_stop_does_not_wait_for_a_read_of_what_was_stored() -> None:
    """The save is answered as lost, after a commit whose answer was lost: it may be ours."""

    async def main() -> list[str]:
        desk, store, [held] = await slow("d1")
        store.after["save"].append(StoreOutcomeUnknown("cut"))
        store.may_read.clear()
        put(desk, held)
        await asyncio.sleep(settlement.LONGEST_RETRY_S)
        assert store.saves == [["d1"], ["d1"]]
        await desk.settler.drain(within_s=LEASE_S)
        return [change.delivery.id for change in desk.journal.kept]

    assert run(main()) == ["d1"]


def test_a_store_that_refuses_is_asked_ever_less_often_until_it_answers() -> None:
    async def main() -> Sequence[float]:
        desk, store, [first, second] = await slow("d1", "d2")
        for one in (first, second):
            store.before["save"].extend([StoreUnavailable("locked")] * 2)
            put(desk, one)
            await desk.settler.drain()
        times_s = store.asked_at_s
        return [after - before for before, after in pairwise(times_s)]

    once_s = settlement.FIRST_RETRY_S
    assert run(main()) == pytest.approx([once_s, 2 * once_s, 0.0, once_s, 2 * once_s])


def test_what_is_urgent_takes_what_may_wait_with_it() -> None:
    async def main() -> tuple[list[list[str]], list[float]]:
        desk, store, [first, second] = await slow("d1", "d2")
        desk.settler.put_later([desk.settlement(success(first))])
        await quiet()
        assert store.saves == []
        await desk.settler.write(desk.settlement(success(second)))
        return store.saves, store.asked_at_s

    assert run(main()) == ([["d1", "d2"]], [0.0])


async def test_facts_of_an_outcome_are_stored_with_it() -> None:
    desk, _, [held] = await slow("d1")

    await desk.settler.write(desk.settlement(success(held), facts=(samples.fact("f"),)))

    assert await desk.store.facts("note") == [samples.fact("f")]


async def test_an_outcome_is_shown_as_the_store_asks_for_it() -> None:
    desk, store, [held] = await slow("d1")
    store.show(foreign_projection())

    await desk.settler.write(desk.settlement(success(held)))

    assert await store.shown_under("status/SENT") != []


async def test_a_group_has_no_more_than_the_batch_has_room_for() -> None:
    desk, _, held = await slow("d1", "d2", "d3")
    put(desk, *held)

    taken = desk.settler.take(2, is_idle=True)

    assert taken is not None
    assert [save.change.delivery.id for save in taken.saves] == ["d1", "d2"]


async def test_of_several_that_cannot_be_written_each_is_given_up() -> None:
    desk, store, [*held, last] = await slow("d1", "d2", "d3", "last")
    store.before["save"].extend([OverflowError("too large")] * 5)
    put(desk, *held)

    async with asyncio.timeout(LEASE_S):
        await desk.settler.drain()
        assert await desk.settler.write(desk.settlement(success(last)))

    assert [change.delivery.id for change in desk.journal.kept] == ["d1", "d2", "d3"]


async def test_a_listener_that_fails_keeps_no_other_from_being_told() -> None:
    desk, _, [first, second] = await slow("d1", "d2")
    heard = []

    def fail() -> None:
        raise ValueError("odd")

    desk.settler.put_all(
        [
            desk.settlement(success(first), done=fail),
            desk.settlement(success(second), done=lambda: heard.append("d2")),
        ]
    )
    await desk.settler.drain()

    assert heard == ["d2"]
    assert len(desk.told) == 2

"""Single submissions of one moment share one write, and nothing of each other's fate."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from homing.domain.delivery import New
from homing.domain.errors import (
    InvalidRequest,
    StoreError,
    StoreFull,
    StoreOutcomeUnknown,
    StoreUnavailable,
)
from homing.engine.commit.group_commit import GroupCommit
from homing.engine.intake.submissions import MAX_BATCH, MIN_HALF, Submissions
from homing.ports import Added, Answers, Batch, Existing
from homing.stores.memory import MemoryStore
from homing.testing import samples

SOON_S = 10.0


class Shelf(MemoryStore):
    """Writes down what came together; refuses what is called so."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[list[str]] = []
        self.told: list[list[str]] = []
        self.full_for: set[str] = set()
        self.gone: type[StoreError] | None = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.was_asked = asyncio.Event()
        self.refused: set[str] = set()
        self.submissions = Submissions(GroupCommit(self), self.prepare, self.hear)

    def prepare(self, ids: Sequence[str]) -> list[New]:
        for delivery_id in ids:
            if delivery_id in self.refused:
                raise InvalidRequest("id", delivery_id)
        return [samples.new(delivery_id) for delivery_id in ids]

    async def commit(self, batch: Batch) -> Answers:
        ids = [write.delivery.id for put in batch.puts for write in put.writes]
        self.writes.append(ids)
        self.was_asked.set()
        await asyncio.sleep(0)
        await self.may_answer.wait()
        if self.gone is not None:
            raise self.gone("gone")
        if self.full_for & set(ids):
            raise StoreFull("no room")
        return Answers([[Existing(i) if i.startswith("old") else Added(i)] for i in ids])

    def hear(self, new: Sequence[New]) -> None:
        self.told.append([one.delivery.id for one in new])

    async def submit(self, *ids: str) -> list[Added | Existing | BaseException]:
        return await asyncio.gather(*map(self.add_one, ids), return_exceptions=True)

    async def add_one(self, delivery_id: str) -> Added | Existing:
        new, answer = await self.submissions.add(delivery_id)
        assert new.delivery.id == delivery_id
        return answer


async def test_what_comes_at_one_moment_is_one_write_and_one_word() -> None:
    shelf = Shelf()
    assert await shelf.submit("a", "b", "c") == [Added("a"), Added("b"), Added("c")]
    assert shelf.writes == [["a", "b", "c"]]
    assert shelf.told == [["a", "b", "c"]]


async def test_one_alone_does_not_wait_for_company() -> None:
    shelf = Shelf()
    assert await shelf.add_one("a") == Added("a")
    assert await shelf.add_one("b") == Added("b")
    assert shelf.writes == [["a"], ["b"]]


async def test_observers_hear_of_new_ones_only() -> None:
    shelf = Shelf()
    assert await shelf.submit("a", "old-b") == [Added("a"), Existing("old-b")]
    await shelf.submit("old-c")
    assert shelf.told == [["a"]]


async def test_one_too_large_is_refused_alone() -> None:
    shelf = Shelf()
    shelf.full_for = {"b"}
    a, b, c = await shelf.submit("a", "b", "c")
    assert (a, c) == (Added("a"), Added("c"))
    assert isinstance(b, StoreFull)
    assert shelf.writes == [["a", "b", "c"], ["a"], ["b", "c"], ["b"], ["c"]]


async def test_what_is_refused_before_it_is_stored_is_refused_alone() -> None:
    shelf = Shelf()
    shelf.refused = {"b", "d"}
    a, b, c, d = await shelf.submit("a", "b", "c", "d")
    assert (a, c) == (Added("a"), Added("c"))
    assert [str(b), str(d)] == ["id: b", "id: d"]
    assert shelf.writes == [["a", "c"]]
    assert isinstance((await shelf.submit("b"))[0], InvalidRequest)
    assert shelf.writes == [["a", "c"]]


@pytest.mark.parametrize("error", [StoreUnavailable, StoreOutcomeUnknown])
async def test_a_store_that_is_gone_is_asked_once_and_told_to_each(
    error: type[StoreError],
) -> None:
    """What may be stored is not added again: it would be taken, by itself."""
    shelf = Shelf()
    shelf.gone = error
    answers = await shelf.submit("a", "b")
    assert [type(answer) for answer in answers] == [error] * 2
    assert answers[0] is not answers[1]
    assert shelf.writes == [["a", "b"]]


async def test_who_gives_up_keeps_nobody_from_an_answer() -> None:
    shelf = Shelf()
    leaving = asyncio.ensure_future(shelf.add_one("a"))
    staying = asyncio.ensure_future(shelf.add_one("b"))
    await shelf.was_asked.wait()
    leaving.cancel()
    assert await staying == Added("b")
    with pytest.raises(asyncio.CancelledError):
        await leaving
    # It may be stored all the same, as with any call that is cancelled.
    assert shelf.writes == [["a", "b"]]


async def test_who_gives_up_before_the_write_is_not_stored() -> None:
    shelf = Shelf()
    leaving = asyncio.ensure_future(shelf.add_one("a"))
    staying = asyncio.ensure_future(shelf.add_one("b"))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == Added("b")
    assert shelf.writes == [["b"]]


async def test_intake_goes_on_after_an_application_has_cancelled_all_its_tasks() -> None:
    shelf = Shelf()
    leaving = asyncio.ensure_future(shelf.add_one("a"))
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    async with asyncio.timeout(SOON_S):
        assert await shelf.add_one("b") == Added("b")


async def test_many_are_written_in_halves() -> None:
    shelf = Shelf()
    await shelf.submit(*(f"d{number}" for number in range(2 * MIN_HALF + 1)))
    assert [len(write) for write in shelf.writes] == [MIN_HALF + 1, MIN_HALF]


async def test_few_are_not_divided_further() -> None:
    shelf = Shelf()
    await shelf.submit(*(f"d{number}" for number in range(MIN_HALF + 1)))
    assert [len(write) for write in shelf.writes] == [MIN_HALF, 1]


async def test_what_comes_during_a_write_is_not_divided() -> None:
    """Otherwise groups that take turns become ever smaller, and each costs a commit."""
    shelf = Shelf()
    shelf.may_answer.clear()
    first = asyncio.ensure_future(shelf.submit("a"))
    await shelf.was_asked.wait()
    shelf.was_asked.clear()
    others = asyncio.ensure_future(shelf.submit(*(f"d{n}" for n in range(2 * MIN_HALF))))
    await shelf.was_asked.wait()
    shelf.may_answer.set()
    await asyncio.gather(first, others)
    assert [len(write) for write in shelf.writes] == [1, 2 * MIN_HALF]


async def test_no_write_is_larger_than_it_may_be() -> None:
    shelf = Shelf()
    await shelf.submit(*(f"d{number}" for number in range(2 * MAX_BATCH + 1)))
    assert [len(write) for write in shelf.writes] == [MAX_BATCH, MAX_BATCH, 1]

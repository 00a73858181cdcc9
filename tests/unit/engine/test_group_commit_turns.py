"""Which requests share a batch, when it is their turn, and who is given which answer."""

from __future__ import annotations

import asyncio

import pytest

from homing.domain.errors import StoreFull, StoreOutcomeUnknown
from homing.engine.commit import group_commit
from homing.engine.commit.group_commit import DEPTH, GroupCommit
from homing.ports import Added
from homing.testing import samples
from tests.unit.engine.recorder import SOON_S, Pile, Recorder, add
from tests.unit.engine.world import quiet


@pytest.fixture
def store() -> Recorder:
    return Recorder()


@pytest.fixture
def commits(store: Recorder) -> GroupCommit:
    return GroupCommit(store)


async def test_a_request_and_each_source_are_given_their_own_answers(
    store: Recorder, commits: GroupCommit
) -> None:
    first, second = Pile(commits, "s1", "s2"), Pile(commits, "t1")

    assert await add(commits, "a") == [[Added("a")]]

    assert store.batches == ["a s1 s2 t1"]
    assert first.answers == [[Added("s1")], [Added("s2")]]
    assert second.answers == [[Added("t1")]]


async def test_an_add_and_a_save_of_one_batch_are_given_their_own_answers(
    store: Recorder, commits: GroupCommit
) -> None:
    await add(commits, "a")
    [held] = await commits.claim(samples.claim())
    store.batches.clear()

    saved, added = await asyncio.gather(
        commits.save([samples.ended(held.delivery)]), commits.add([samples.new("b")])
    )

    assert (saved, added) == ([True], [Added("b")])
    assert store.batches == ["a b"]


async def test_what_fails_in_a_source_fails_alone(store: Recorder, commits: GroupCommit) -> None:
    store.poison = {"s2": TypeError("odd")}
    pile = Pile(commits, "s1", "s2", "s3")

    commits.wake("add")
    await quiet()

    assert [pile.answers[0], pile.answers[2]] == [[Added("s1")], [Added("s3")]]
    assert isinstance(pile.answers[1], TypeError)


async def test_what_the_store_refuses_to_a_source_alone_is_told_for_each_put(
    store: Recorder, commits: GroupCommit
) -> None:
    store.poison = {"s1": StoreFull("no room"), "s2": StoreFull("no room")}
    pile = Pile(commits, "s1", "s2")

    commits.wake("add")
    await quiet()

    assert [type(answer) for answer in pile.answers] == [StoreFull, StoreFull]


async def test_sources_are_told_that_their_write_was_cancelled(
    store: Recorder, commits: GroupCommit
) -> None:
    store.may_answer.clear()
    pile = Pile(commits, "s1", "s2")
    commits.wake("add")
    await quiet()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await quiet()

    assert [type(answer) for answer in pile.answers] == [StoreOutcomeUnknown] * 2


async def test_writes_that_were_cancelled_are_no_longer_under_way(
    store: Recorder, commits: GroupCommit
) -> None:
    for nth in range(DEPTH):
        store.may_answer.clear()
        caller = asyncio.ensure_future(add(commits, f"d{nth}"))
        await quiet()
        for task in asyncio.all_tasks():
            if "_Queue._write" in repr(task.get_coro()):
                task.cancel()
        await caller

    store.may_answer.set()
    assert await add(commits, "last") == [[Added("last")]]


async def test_a_source_is_asked_for_what_the_batch_has_room_for(
    commits: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "LARGEST", 6)
    first, second = Pile(commits, "s1", "s2"), Pile(commits, "t1")

    await add(commits, "a")

    assert (first.limits[0], second.limits[0]) == (5, 3)


async def test_a_batch_has_a_largest_size(
    store: Recorder, commits: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "LARGEST", 2)

    await add(commits, "a", "b", "c")

    assert store.batches == ["a b", "c"]


async def test_no_more_batches_are_under_way_than_the_depth(
    store: Recorder, commits: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "LARGEST", 1)
    store.may_answer.clear()
    names = [f"d{nth}" for nth in range(DEPTH + 2)]
    asked = asyncio.ensure_future(add(commits, *names))
    await quiet()
    assert store.batches == names[:DEPTH]

    store.may_answer.set()
    assert await asked == [[Added(name)] for name in names]


async def test_a_caller_that_leaves_during_the_write_keeps_nobody_from_an_answer(
    store: Recorder, commits: GroupCommit
) -> None:
    store.may_answer.clear()
    leaving, staying = (asyncio.ensure_future(add(commits, name)) for name in ("a", "b"))
    await quiet()
    leaving.cancel()
    await quiet()
    store.may_answer.set()

    assert await staying == [[Added("b")]]
    assert store.batches == ["a b"]


async def test_refused_saves_do_not_change_whose_answer_is_whose(
    store: Recorder, commits: GroupCommit
) -> None:
    """The add arrives first; what is refused is written again, saves first."""
    await add(commits, "a", "b")
    held = [one.delivery for one in await commits.claim(samples.claim())]
    store.batches.clear()
    store.poison = {"b": StoreFull("no room")}

    added, *refused = await asyncio.gather(
        commits.add([samples.new("new")]),
        *(commits.save([samples.ended(one)]) for one in held),
        return_exceptions=True,
    )

    assert added == [Added("new")]
    assert [type(answer) for answer in refused] == [StoreFull] * 2
    assert store.batches == ["new a b", "a b", "new"]


class TestLargePuts:
    @pytest.fixture(autouse=True)
    def small_sizes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(group_commit, "LARGE_PUT", 1)
        monkeypatch.setattr(group_commit, "LARGEST", 1)

    async def test_one_that_waits_has_every_second_turn(
        self, store: Recorder, commits: GroupCommit
    ) -> None:
        async with asyncio.timeout(SOON_S):
            await asyncio.gather(
                add(commits, "a", "b", "c"),
                commits.add([samples.new("x1"), samples.new("x2")]),
                commits.add([samples.new("y1"), samples.new("y2")]),
            )

        assert store.batches == ["a", "x1 x2", "b", "y1 y2", "c"]

    async def test_one_that_is_withdrawn_does_not_hold_up_the_next(
        self, store: Recorder, commits: GroupCommit
    ) -> None:
        leaving, staying = (
            asyncio.ensure_future(commits.add([samples.new(f"{one}1"), samples.new(f"{one}2")]))
            for one in "xy"
        )
        await asyncio.sleep(0)
        leaving.cancel()

        async with asyncio.timeout(SOON_S):
            assert await staying == [Added("y1"), Added("y2")]
        assert store.batches == ["y1 y2"]

"""The one gatherer: what arrives together is one batch, and no request fails for another's sake."""

from __future__ import annotations

import asyncio

import pytest

from homing.domain.errors import (
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreOutcomeUnknown,
    StoreUnavailable,
)
from homing.engine.commit.group_commit import DEPTH, LARGE_PUT, GroupCommit
from homing.ports import Added, PurgeRule
from homing.testing import samples
from tests.unit.engine.recorder import Recorder, add
from tests.unit.engine.world import quiet


async def test_requests_of_all_kinds_that_arrive_together_are_one_batch() -> None:
    store = Recorder()
    commits = GroupCommit(store)

    answers = await asyncio.gather(
        commits.claim(samples.claim()),
        commits.add([samples.new("a")]),
        commits.purge(PurgeRule(what="keys", before_ms=0)),
        commits.renew("w1", [("a", 1)], 1),
        commits.save([], [samples.fact("f")]),
    )

    assert store.batches == ["a facts renew purge claim"]
    assert [one.delivery.id for one in answers[0]] == ["a"], "a claim finds what the batch made due"


async def test_what_arrives_during_a_write_shares_the_next_one() -> None:
    store = Recorder()
    commits = GroupCommit(store)
    store.may_answer.clear()
    asked = []
    for nth in range(DEPTH):
        asked.append(asyncio.ensure_future(add(commits, f"first{nth}")))
        await quiet()
    later = [asyncio.ensure_future(add(commits, name)) for name in ("x", "y", "z")]
    await quiet()
    assert store.batches == [f"first{nth}" for nth in range(DEPTH)]

    store.may_answer.set()
    await asyncio.gather(*asked, *later)

    assert store.batches[DEPTH:] == ["x y z"]


@pytest.mark.parametrize("error", [StoreFull("no room"), StoreError("odd"), TypeError("odd")])
async def test_one_that_cannot_be_written_fails_alone(error: Exception) -> None:
    store = Recorder()
    commits = GroupCommit(store)
    store.poison = {"c": error}

    *others, c = await add(commits, "a", "b", "d", "c")

    assert others == [[Added("a")], [Added("b")], [Added("d")]]
    assert (type(c), str(c)) == (type(error), str(error))
    assert store.batches == ["a b d c", "a b", "d c", "d", "c"]


@pytest.mark.parametrize("kind", [StoreUnavailable, StoreOutcomeUnknown, StoreCorrupt])
async def test_what_each_would_meet_alone_is_told_to_each_and_nothing_is_repeated(
    kind: type[StoreError],
) -> None:
    store = Recorder()
    commits = GroupCommit(store)
    store.poison = {"b": kind("gone")}

    first, second = await add(commits, "a", "b")

    assert (type(first), type(second)) == (kind, kind)
    assert first is not second
    assert store.batches == ["a b"]


async def test_saves_that_the_store_refuses_are_refused_together() -> None:
    """Otherwise marks could be stored before the outcomes that they wait behind."""
    store = Recorder()
    commits = GroupCommit(store)
    await add(commits, "a", "b", "c")
    held = [one.delivery for one in await commits.claim(samples.claim())]
    store.batches.clear()
    store.poison = {"b": StoreFull("no room")}

    answers = await asyncio.gather(
        *(commits.save([samples.ended(one)]) for one in held),
        commits.add([samples.new("new")]),
        return_exceptions=True,
    )

    assert [type(answer) for answer in answers[:3]] == [StoreFull] * 3
    assert answers[3] == [Added("new")]
    assert store.batches == ["a b c new", "a b c", "new"]


async def test_a_save_that_cannot_be_encoded_fails_alone() -> None:
    store = Recorder()
    commits = GroupCommit(store)
    await add(commits, "a", "b")
    held = [one.delivery for one in await commits.claim(samples.claim())]
    store.poison = {"a": TypeError("not bytes")}

    first, second = await asyncio.gather(
        *(commits.save([samples.ended(one)]) for one in held), return_exceptions=True
    )

    assert (type(first), second) == (TypeError, [True])


async def test_a_large_put_is_a_batch_of_its_own_and_keeps_no_claim_waiting() -> None:
    store = Recorder()
    commits = GroupCommit(store)
    many = [samples.new(f"m{nth}") for nth in range(LARGE_PUT + 1)]

    bulk, claimed, _ = await asyncio.gather(
        commits.add(many), commits.claim(samples.claim()), commits.add([samples.new("a")])
    )

    assert len(bulk) == len(many)
    assert [one.delivery.id for one in claimed] == ["a"]
    assert store.batches[0] == "a claim"
    assert len(store.batches) == 2


async def test_kinds_with_writers_of_their_own_do_not_share_a_batch() -> None:
    store = Recorder(
        (frozenset({"add"}), frozenset({"save", "renew", "purge"}), frozenset({"claim"}))
    )
    commits = GroupCommit(store)

    await asyncio.gather(
        commits.claim(samples.claim()), commits.add([samples.new("a")]), commits.save([])
    )

    assert sorted(store.batches) == ["a", "claim", "facts"]


async def test_a_request_is_withdrawn_by_its_caller_until_it_is_taken() -> None:
    store = Recorder()
    commits = GroupCommit(store)
    leaving = asyncio.ensure_future(commits.add([samples.new("a")]))
    staying = asyncio.ensure_future(commits.add([samples.new("b")]))
    await asyncio.sleep(0)
    leaving.cancel()

    assert await staying == [Added("b")]
    assert store.batches == ["b"]


async def test_a_write_that_is_cancelled_is_of_unknown_outcome_and_the_next_one_goes_on() -> None:
    """An application may cancel all tasks that it finds."""
    store = Recorder()
    commits = GroupCommit(store)
    store.may_answer.clear()
    caller = asyncio.ensure_future(add(commits, "a"))
    await quiet()
    for task in asyncio.all_tasks():
        if "_Queue._write" in repr(task.get_coro()):
            task.cancel()

    [answer] = await caller
    assert isinstance(answer, StoreOutcomeUnknown)
    store.may_answer.set()
    assert await add(commits, "b") == [[Added("b")]]

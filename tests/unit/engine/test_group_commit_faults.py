"""What a source does wrong, or a batch has no room for, keeps no caller waiting for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from homing.domain.delivery import New
from homing.domain.errors import StoreFull
from homing.engine.commit import group_commit
from homing.engine.commit.group_commit import GroupCommit
from homing.engine.commit.settlement import PendingSave, Settlement
from homing.engine.intake.submissions import Submissions
from homing.ports import Added
from homing.stores.projecting import LayoutProjection
from homing.testing import samples
from homing.testing.clocks import ManualClock
from homing.testing.contract.foreign import foreign_projection
from tests.unit.engine.desk import LEASE_S, Desk, success
from tests.unit.engine.recorder import Pile, Recorder, add
from tests.unit.engine.world import quiet


def prepare(ids: Sequence[str]) -> list[New]:
    return [samples.new(one) for one in ids]


def hear(new: Sequence[New]) -> None:
    """No observer."""


@pytest.fixture
def store() -> Recorder:
    return Recorder()


@pytest.fixture
def commits(store: Recorder) -> GroupCommit:
    return GroupCommit(store)


async def test_submissions_wait_for_the_batch_after_a_full_one(
    commits: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "LARGEST", 2)
    submissions = Submissions(commits, prepare, hear)
    asked = [asyncio.ensure_future(commits.add([samples.new(name)])) for name in ("a", "b")]
    await asyncio.sleep(0)
    single = submissions.add("c")
    await quiet()

    assert [one.done() for one in asked] == [True, True]
    assert single.done()


async def test_outcomes_wait_for_the_batch_after_a_full_one(
    store: Recorder, commits: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    settler = Settlement(store, commits, clock := ManualClock())
    await add(commits, "d1", "d2")
    first, second = [one.delivery for one in await commits.claim(samples.claim())]
    monkeypatch.setattr(group_commit, "LARGEST", 2)
    store.poison = {"d1": StoreFull("no room")}
    asked: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(commits.add([samples.new("a")])),
        asyncio.ensure_future(commits.save([success(first)])),
    ]
    await asyncio.sleep(0)
    settler.put(PendingSave("succeed", success(second), second, clock.steady_s() + LEASE_S))
    await quiet()

    assert [one.done() for one in asked] == [True, True]
    assert asked[0].result() == [Added("a")]
    assert isinstance(asked[1].exception(), StoreFull)
    assert settler.outstanding == 0


async def test_sources_have_every_second_turn_beside_large_puts(
    store: Recorder, commits: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "LARGE_PUT", 1)
    Pile(commits, "s1")

    await asyncio.gather(
        *(commits.add([samples.new(f"{one}1"), samples.new(f"{one}2")]) for one in "xyz")
    )

    assert store.batches.index("s1") <= 1


async def test_a_projection_that_fails_keeps_no_other_caller_from_an_answer(
    store: Recorder, commits: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A projection belongs to a plugin."""

    def fail(*_: object) -> None:
        raise ValueError("odd")

    submissions = Submissions(commits, prepare, hear)
    claiming = asyncio.ensure_future(commits.claim(samples.claim()))
    await asyncio.sleep(0)
    monkeypatch.setattr(LayoutProjection, "of_new", fail)
    store.show(foreign_projection())
    single = submissions.add("a")
    await quiet()

    assert claiming.done()
    assert single.done()
    assert isinstance(single.exception(), ValueError)


async def test_a_projection_that_fails_for_one_outcome_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk()
    first, second = await desk.claimed("d1", "d2")
    desk.store.show(foreign_projection())
    of_change = LayoutProjection.of_change

    def fail_for_one(self: LayoutProjection, change: Any, keys: Any) -> Any:
        if change.delivery.id == "d1":
            raise ValueError("odd")
        return of_change(self, change, keys)

    monkeypatch.setattr(LayoutProjection, "of_change", fail_for_one)
    kept = await desk.settler.write_all([desk.settlement(success(one)) for one in (first, second)])

    assert [type(kept[0]), kept[1]] == [ValueError, True]

"""What a batch takes of the submissions that wait, and who is told of it first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from homing.domain.delivery import New
from homing.domain.errors import InvalidRequest, StoreUnavailable
from homing.engine.commit.group_commit import GroupCommit
from homing.engine.intake.submissions import MIN_HALF, Submissions
from homing.ports import Added
from homing.testing import samples
from homing.testing.contract.foreign import foreign_projection
from tests.unit.engine.recorder import SOON_S, Recorder
from tests.unit.engine.world import quiet


class Intake:
    """Submissions by id; those that begin with `bad` are refused. `heard` is in order."""

    def __init__(self) -> None:
        self.store = Recorder()
        self.submissions = Submissions(GroupCommit(self.store), self.prepare, self.tell)
        self.heard: list[str] = []
        self.told_error: Exception | None = None

    def prepare(self, ids: Sequence[str]) -> list[New]:
        for one in ids:
            if one.startswith("bad"):
                raise InvalidRequest("id", one)
        return [samples.new(one) for one in ids]

    def tell(self, new: Sequence[New]) -> None:
        self.heard += [f"observer {one.delivery.id}" for one in new]
        if self.told_error is not None:
            raise self.told_error

    async def submit(self, name: str) -> object:
        async with asyncio.timeout(SOON_S):
            _, answer = await self.submissions.add(name)
        self.heard.append(f"caller {name}")
        return answer


@pytest.fixture
def intake() -> Intake:
    return Intake()


async def test_no_more_is_taken_than_the_batch_has_room_for(intake: Intake) -> None:
    waiting = [intake.submissions.add(name) for name in ("a", "b", "c")]

    taken = intake.submissions.take(2, is_idle=False)

    assert taken is not None
    assert [put.writes[0].delivery.id for put in taken.puts] == ["a", "b"]
    assert (await waiting[2])[1] == Added("c")


async def test_what_waits_behind_a_round_of_refused_ones_is_stored(intake: Intake) -> None:
    names = [*(f"bad{nth}" for nth in range(MIN_HALF)), "good"]

    *refused, stored = await asyncio.gather(
        *(intake.submit(name) for name in names), return_exceptions=True
    )

    assert [str(one) for one in refused] == [f"id: {name}" for name in names[:-1]]
    assert stored == Added("good")


async def test_observers_are_told_before_the_caller(intake: Intake) -> None:
    await intake.submit("a")

    assert intake.heard == ["observer a", "caller a"]


async def test_an_observer_that_fails_keeps_no_caller_from_an_answer(intake: Intake) -> None:
    intake.told_error = ValueError("odd")

    assert await intake.submit("a") == Added("a")


async def test_what_is_stored_is_shown_as_the_store_asks_for_it(intake: Intake) -> None:
    intake.store.show(foreign_projection())

    await intake.submit("a")

    assert await intake.store.shown_under("status/QUEUED") != []


async def test_a_store_that_is_gone_refuses_though_a_caller_has_left(intake: Intake) -> None:
    intake.store.poison = {"a": StoreUnavailable("gone")}
    intake.store.may_answer.clear()
    leaving, staying = (asyncio.ensure_future(intake.submit(name)) for name in ("a", "b"))
    await quiet()
    leaving.cancel()
    await quiet()
    intake.store.may_answer.set()

    with pytest.raises(StoreUnavailable):
        await staying

"""Outcomes are written in groups; a finished send is never dropped, a lost claim never wins."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.errors import StoreFull, StoreOutcomeUnknown, StoreUnavailable
from homing.domain.failure import Failure
from homing.engine.commit import settlement
from homing.engine.commit.group_commit import GroupCommit
from homing.engine.commit.settlement import Settlement, late_outcome
from homing.ports import Answers, Batch
from homing.testing import samples
from tests.simulation.virtualtime import run
from tests.unit.domain.lives import LOST, SEND, claimed, pending, plan, stage
from tests.unit.engine.desk import LEASE_S, Desk, success


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settlement, "FIRST_RETRY_S", 0.0)
    monkeypatch.setattr(settlement, "LONGEST_RETRY_S", 0.0)


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_a_change_is_stored_and_told(desk: Desk) -> None:
    [held] = await desk.claimed("d1")

    assert await desk.settler.write(desk.settlement(success(held)))

    stored = await desk.store.get("d1")
    assert stored is not None
    assert (stored.state, stored.version) == ("delivered", held.version + 1)
    [event] = desk.told
    assert (event.name, event.change.delivery.state, event.previous) == (
        "succeed",
        "delivered",
        success(held).delivery,
    )


async def test_what_gathers_goes_in_one_group(desk: Desk) -> None:
    held = await desk.claimed(*(f"d{n}" for n in range(40)))

    for delivery in held:
        desk.settler.put(desk.settlement(success(delivery)))
    assert desk.settler.outstanding == 40
    await desk.settler.drain()

    assert (desk.store.calls, desk.settler.outstanding) == (["save"], 0)
    assert len(desk.told) == 40


@pytest.mark.parametrize(("running", "saves"), [(0, 2), (63, 2), (64, 1)])
def test_a_small_group_waits_for_company_only_while_many_attempts_run(
    running: int, saves: int
) -> None:
    async def main() -> list[str]:
        desk = Desk(running)
        first, second = await desk.claimed("d1", "d2")
        desk.settler.put(desk.settlement(success(first)))
        await asyncio.sleep(settlement.WAIT_FOR_OTHERS_S / 2)
        desk.settler.put(desk.settlement(success(second)))
        await desk.settler.drain()
        assert len(desk.told) == 2
        return desk.store.calls

    assert run(main()) == ["save"] * saves


def test_what_has_gathered_already_waits_for_nobody() -> None:
    async def main() -> tuple[list[str], float]:
        desk = Desk(running=settlement.ENOUGH_FOR_A_WRITE)
        group = [desk.settlement(success(one)) for one in await desk.claimed("d1", "d2")]
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        assert await desk.settler.write_all(group) == [True, True]
        return desk.store.calls, loop.time() - began_s

    assert run(main()) == (["save"], 0.0)


async def test_a_written_group_leaves_nothing_to_the_garbage_collector(desk: Desk) -> None:
    group = [desk.settlement(success(each)) for each in await desk.claimed("d1", "d2")]

    await desk.settler.write_all(group)

    assert [save.done for save in group] == [None, None]


async def test_of_a_group_each_has_its_own_answer(desk: Desk) -> None:
    first, second = await desk.claimed("d1", "d2")
    await desk.store.save([success(second)])

    group = [desk.settlement(success(one)) for one in (first, second)]

    assert await desk.settler.write_all(group) == [True, False]


async def test_a_group_that_cannot_be_written_in_its_time_says_why(desk: Desk) -> None:
    held = await desk.claimed("d1", "d2")
    desk.store.before["save"].append(error := StoreUnavailable("down"))
    group = [desk.settlement(success(one)) for one in held]
    group[0].give_up_at_s = 0.0

    refused, kept = await desk.settler.write_all(group)
    assert (repr(refused), kept) == (repr(error), True)


async def test_too_much_at_once_makes_its_makers_wait(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlement, "GROUP_LIMIT", 4)
    held = await desk.claimed(*(f"d{n}" for n in range(13)))
    for delivery in held:
        desk.settler.put(desk.settlement(success(delivery)))

    waiting = asyncio.ensure_future(desk.settler.room())
    await asyncio.sleep(0)
    assert not waiting.done()

    await desk.settler.drain()
    await waiting
    assert desk.store.calls == ["save"] * 4


async def test_i11_a_lost_claim_changes_nothing_and_is_counted(desk: Desk) -> None:
    [held] = await desk.claimed("d1")
    [taken_over] = await desk.store.claim(
        samples.claim("w2", at_ms=samples.NOW_MS + samples.LEASE_MS)
    )

    kept = await desk.settler.write(desk.settlement(success(held)))

    assert (kept, desk.settler.lost_claims, desk.told) == (False, 1, [])
    assert await desk.store.get("d1") == taken_over.delivery


async def test_p9_what_a_zombie_learnt_is_kept_for_the_next_owner(desk: Desk) -> None:
    [held] = await desk.claimed("d1")
    await desk.store.claim(samples.claim("w2", at_ms=samples.NOW_MS + samples.LEASE_MS))

    await desk.settler.write(desk.settlement(success(held)))
    await desk.settler.drain()

    [fact] = await desk.store.facts("late_outcome", "d1/")
    assert fact.value is not None
    assert (fact.value["status"], fact.value["notification_id"]) == ("done", "n-1")
    assert (fact.value["stage"], fact.value["window"]) == ("send", "W3")


async def test_a_lost_claim_of_one_does_not_hold_up_the_others(desk: Desk) -> None:
    one, other = await desk.claimed("d1", "d2")
    stale = replace(success(one), delivery=replace(success(one).delivery, version=1))

    answers = await asyncio.gather(
        desk.settler.write(desk.settlement(stale)),
        desk.settler.write(desk.settlement(success(other))),
    )

    assert list(answers) == [False, True]


async def test_a_store_that_fails_is_asked_again(desk: Desk) -> None:
    [held] = await desk.claimed("d1")
    desk.store.before["save"].extend([StoreUnavailable("locked"), StoreUnavailable("locked")])

    assert await desk.settler.write(desk.settlement(success(held)))

    assert desk.store.calls.count("save") == 3
    assert len(desk.told) == 1


async def test_an_unanswered_commit_that_was_stored_counts_as_ours(desk: Desk) -> None:
    [held] = await desk.claimed("d1")
    desk.store.after["save"].append(StoreOutcomeUnknown("cut"))

    assert await desk.settler.write(desk.settlement(success(held)))

    assert (desk.settler.lost_claims, len(desk.told)) == (0, 1)
    assert await desk.store.facts("late_outcome") == []


async def test_an_unanswered_commit_is_followed_up_through_further_failures(desk: Desk) -> None:
    [held] = await desk.claimed("d1")
    desk.store.after["save"].append(StoreOutcomeUnknown("cut"))
    desk.store.before["get"].extend([StoreUnavailable("down"), StoreUnavailable("down")])

    async with asyncio.timeout(5):
        assert await desk.settler.write(desk.settlement(success(held)))


async def test_what_somebody_else_wrote_meanwhile_is_not_taken_for_ours(desk: Desk) -> None:
    [held] = await desk.claimed("d1")
    other = transitions.fail(held, Failure("deferred"), plan=SEND, now_ms=samples.NOW_MS, roll=0.0)
    await desk.store.save([other])
    desk.store.before["save"].append(StoreUnavailable("locked"))

    assert not await desk.settler.write(desk.settlement(success(held)))


async def test_p8_a_finished_send_that_cannot_be_stored_goes_to_the_journal(desk: Desk) -> None:
    [held] = await desk.claimed("d1")
    desk.store.before["save"].append(StoreUnavailable("disk full"))
    outcome = desk.settlement(success(held), must_keep=True)
    desk.clock.advance(LEASE_S)

    assert not await desk.settler.write(outcome)

    assert [change.delivery.state for change in desk.journal.kept] == ["delivered"]
    assert desk.settler.journaled == 1


async def test_anything_else_is_left_to_the_next_owner_and_the_error_told(desk: Desk) -> None:
    [held] = await desk.claimed("d1")
    desk.store.before["save"].append(StoreUnavailable("disk full"))
    outcome = desk.settlement(success(held))
    desk.clock.advance(LEASE_S)

    with pytest.raises(StoreUnavailable, match="disk full"):
        await desk.settler.write(outcome)
    assert desk.journal.kept == []


async def test_one_that_cannot_be_written_at_all_takes_no_other_with_it(desk: Desk) -> None:
    one, other = await desk.claimed("d1", "d2")
    desk.store.before["save"].extend([OverflowError("too large"), OverflowError("too large")])

    async with asyncio.timeout(5):
        answers = await asyncio.gather(
            desk.settler.write(desk.settlement(success(one), must_keep=True)),
            desk.settler.write(desk.settlement(success(other))),
            return_exceptions=True,
        )

    assert list(answers) == [False, True]
    assert [change.delivery.id for change in desk.journal.kept] == ["d1"]


async def test_a_failing_journal_does_not_hang_its_callers(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    [held] = await desk.claimed("d1")

    async def refuse(changes: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(desk.journal, "append", refuse)
    desk.store.before["save"].append(StoreUnavailable("disk full"))
    outcome = desk.settlement(success(held), must_keep=True)
    desk.clock.advance(LEASE_S)

    async with asyncio.timeout(5):
        assert not await desk.settler.write(outcome)


async def test_a_mark_that_found_no_room_is_not_written_later(desk: Desk) -> None:
    """Its caller was told that it is not stored, and sends nothing."""
    sent, waiting = await desk.claimed("d1", "d2")
    desk.store.before["save"].append(StoreFull("no room"))
    mark = transitions.mark_committing(waiting, now_ms=samples.NOW_MS, frozen={})

    desk.settler.put(desk.settlement(success(sent)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert desk.store.calls == ["save"]
    [refused] = await desk.settler.write_all([desk.settlement(mark, needs_room=True)])
    await desk.settler.drain()

    assert isinstance(refused, StoreFull)
    assert [event.change.delivery.id for event in desk.told] == ["d1"]
    assert await desk.store.get("d2") == waiting


async def test_at_a_stop_what_the_store_does_not_answer_goes_to_the_journal(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is being saved, and what has gathered behind it."""
    first, second = await desk.claimed("d1", "d2")
    asked = asyncio.Event()
    never: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()

    async def say_nothing(batch: Batch) -> Answers:
        asked.set()
        return await never

    monkeypatch.setattr(desk.store, "commit", say_nothing)
    settler = Settlement(desk.store, GroupCommit(desk.store), desk.clock, desk.journal)
    saves = [desk.settlement(success(each), must_keep=True) for each in (first, second)]
    settler.put(saves[0])
    await asked.wait()
    settler.put(saves[1])

    await settler.drain(within_s=0.0)

    assert [change.delivery.id for change in desk.journal.kept] == ["d1", "d2"]
    assert [save.kept for save in saves] == [False, False]


async def test_what_may_wait_is_written_at_the_end_too(desk: Desk) -> None:
    [held] = await desk.claimed("d1")
    desk.settler.put_later([desk.settlement(success(held))])

    await desk.settler.drain()

    assert [event.change.delivery.id for event in desk.told] == ["d1"]


async def test_what_may_wait_does_not_wait_when_there_is_too_much_of_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlement, "GROUP_LIMIT", 2)
    monkeypatch.setattr(settlement, "LATER_S", LEASE_S)
    held = await desk.claimed(*(f"d{n}" for n in range(7)))

    desk.settler.put_later([desk.settlement(success(each)) for each in held])

    waiting = asyncio.ensure_future(desk.settler.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    async with asyncio.timeout(5):
        await waiting
        await desk.settler.drain()
    assert len(desk.told) == 7


def test_only_a_whole_delivery_is_evidence_for_the_next_owner() -> None:
    done = success(claimed())
    doubtful = transitions.fail(claimed(), LOST, plan=SEND, now_ms=samples.NOW_MS, roll=0.0)
    soft = transitions.fail(
        claimed(), Failure("deferred"), plan=SEND, now_ms=samples.NOW_MS, roll=0.0
    )
    first_of_two = transitions.advance(
        claimed(pending(stage="fetch")),
        plan=plan(stage("fetch"), stage("notify")),
        now_ms=samples.NOW_MS,
        keep_until_ms=samples.NOW_MS + 1,
    )

    assert late_outcome(first_of_two, 1) == []
    assert [fact.key for fact in late_outcome(done, 1)] == ["d1/1"]
    assert [(fact.value or {})["maybe_sent"] for fact in late_outcome(doubtful, 1)] == [True]
    assert late_outcome(soft, 1) == []


def test_who_notes_an_interruption_does_not_write_over_what_the_holder_itself_learnt() -> None:
    marked = replace(claimed(), committing=True, unsettled_claims=2)
    noted = transitions.note_interruption(marked, plan=SEND, now_ms=samples.NOW_MS, roll=0.0)

    assert [(a.number, a.status, a.maybe_sent) for a in noted.ended] == [(1, "interrupted", True)]
    assert late_outcome(noted, 1) == []

"""Maybe sent is never called not sent (I7), and evidence settles it (I8)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Change, Delivery, FailedBecause, Receipt
from tests.unit.domain.lives import (
    HARD,
    LOST,
    MINUTE_MS,
    NOW_MS,
    SEND,
    SKIPPED,
    SOFT,
    addressed,
    after_failure,
    claimed,
    failed,
    pending,
    plan,
    stage,
)

ONCE = plan(stage(attempts=1, sends=True))
REASONS: tuple[FailedBecause, ...] = ("rejected", "exhausted", "expired", "poison", "uncertain")


def in_doubt(before: Delivery | None = None) -> Delivery:
    """Claimed again after an attempt whose answer was lost."""
    return claimed(after_failure(claimed(before), LOST))


@pytest.mark.parametrize("because", REASONS)
def test_i7_whatever_ends_it_in_doubt_it_is_uncertain(because: FailedBecause) -> None:
    ended = transitions.dead_letter(in_doubt(), because, plan=SEND, now_ms=NOW_MS).delivery

    assert ended.failed_because == "uncertain"
    assert ended.maybe_sent


@pytest.mark.parametrize("because", REASONS)
def test_without_doubt_the_reason_stands(because: FailedBecause) -> None:
    ended = transitions.dead_letter(claimed(), because, plan=SEND, now_ms=NOW_MS).delivery

    assert ended.failed_because == because


ENDINGS: dict[str, Callable[[Delivery], Change]] = {
    "rejected": lambda d: transitions.fail(d, HARD, plan=SEND, now_ms=NOW_MS, roll=0.0),
    "exhausted": lambda d: transitions.fail(d, SOFT, plan=ONCE, now_ms=NOW_MS, roll=0.0),
    "suppressed": lambda d: transitions.suppress(d, SKIPPED, plan=SEND, now_ms=NOW_MS),
    "children": lambda d: transitions.fail_with_children(
        d, {"rejected": 2}, plan=SEND, now_ms=NOW_MS
    ),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_i7_a_later_answer_does_not_take_back_the_doubt(
    ending: Callable[[Delivery], Change],
) -> None:
    ended = ending(in_doubt()).delivery

    assert (ended.state, ended.failed_because) == ("failed", "uncertain")


def test_a_rejection_that_may_still_be_delivered_is_uncertain() -> None:
    ended = after_failure(failure=replace(HARD, maybe_sent=True))

    assert (ended.state, ended.failed_because) == ("failed", "uncertain")


def test_out_of_budget_but_able_to_look_it_waits_for_one_more_look() -> None:
    change = transitions.fail(claimed(), LOST, plan=ONCE, now_ms=NOW_MS, roll=0.0, can_look=True)

    after = change.delivery
    assert (after.state, after.attempts_spent) == ("pending", 1)
    assert transitions.overspent(after, ONCE) == "exhausted"


def test_without_doubt_there_is_nothing_to_look_for() -> None:
    change = transitions.fail(claimed(), SOFT, plan=ONCE, now_ms=NOW_MS, roll=0.0, can_look=True)

    assert (change.delivery.state, change.delivery.failed_because) == ("failed", "exhausted")


def test_i8_found_is_delivered_with_the_evidence_and_no_second_send() -> None:
    receipt = Receipt("n-7", evidence="lookup")

    change = transitions.settle_found(in_doubt(), plan=SEND, now_ms=NOW_MS, receipt=receipt)

    after = change.delivery
    assert (after.state, after.maybe_sent, after.failed_because) == ("delivered", False, None)
    assert after.receipt == replace(receipt, accepted_at_ms=NOW_MS)
    assert change.ended == ()


def test_absent_ends_the_doubt_and_the_delivery_goes_on() -> None:
    before = in_doubt(addressed("a@example.org"))

    after = transitions.dispel_doubt(before).delivery

    assert (after.maybe_sent, after.recipients[0].outcome) == (False, "open")
    ended = transitions.fail(after, HARD, plan=SEND, now_ms=NOW_MS, roll=0.0).delivery
    assert ended.failed_because == "rejected"


def test_unknown_waits_and_that_is_no_attempt() -> None:
    before = in_doubt()

    change = transitions.await_evidence(before, now_ms=NOW_MS, due_at_ms=NOW_MS + MINUTE_MS)

    after = change.delivery
    assert (after.state, after.due_at_ms, after.maybe_sent) == (
        "pending",
        NOW_MS + MINUTE_MS,
        True,
    )
    assert (after.attempts_spent, after.attempts_ended) == (
        before.attempts_spent,
        before.attempts_ended,
    )
    assert change.ended == ()


def test_i10_sending_again_in_doubt_is_flagged_as_a_possible_duplicate() -> None:
    after = transitions.waive_doubt(in_doubt()).delivery

    assert (after.maybe_duplicate, after.doubt_waived, after.maybe_sent) == (True, True, True)


def test_a_waiver_is_for_one_doubt_only() -> None:
    waived = transitions.waive_doubt(in_doubt()).delivery

    again = transitions.fail(waived, LOST, plan=SEND, now_ms=NOW_MS + MINUTE_MS, roll=0.0).delivery

    assert (again.doubt_waived, again.maybe_sent_at_ms) == (False, NOW_MS + MINUTE_MS)


def test_a_good_answer_ends_the_doubt() -> None:
    after = transitions.succeed(
        transitions.waive_doubt(in_doubt()).delivery, plan=SEND, now_ms=NOW_MS, roll=0.0
    ).delivery

    assert (after.state, after.maybe_sent, after.doubt_waived) == ("delivered", False, False)
    assert after.maybe_duplicate


def test_the_doubt_of_a_finished_stage_does_not_follow_into_the_next() -> None:
    staged = plan(stage("publish", sends=True), stage("log"))
    before = claimed(after_failure(claimed(pending(stage="publish")), LOST, by_plan=staged))

    after = transitions.advance(before, plan=staged, now_ms=NOW_MS).delivery

    assert (after.stage, after.maybe_sent, after.doubt_waived) == ("log", False, False)


def test_an_operator_who_replays_an_uncertain_one_accepts_a_duplicate() -> None:
    uncertain = failed(LOST)

    after = transitions.replay(uncertain, actor="ann", reason="asked her", now_ms=NOW_MS).delivery

    assert (after.maybe_sent, after.doubt_waived, after.maybe_duplicate) == (True, True, True)
    ended = transitions.fail(claimed(after), HARD, plan=SEND, now_ms=NOW_MS, roll=0.0).delivery
    assert ended.failed_because == "uncertain"


def test_a_fault_of_the_route_may_leave_doubt_too() -> None:
    fault = replace(LOST, disposition="route_fault")

    after = after_failure(failure=fault)

    assert (after.state, after.attempts_spent, after.maybe_sent) == ("pending", 0, True)

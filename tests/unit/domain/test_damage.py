"""A delivery whose newest record was damaged is held for a person."""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Delivery, Recipient
from homing.domain.failure import STORE_DAMAGED
from tests.unit.domain.lives import (
    LOST,
    NOW_MS,
    SOFT,
    addressed,
    after_failure,
    claimed,
    marked,
    pending,
)

LATER_MS = NOW_MS + 5000


def held(before: Delivery) -> Delivery:
    return transitions.hold_for_damage(before, now_ms=LATER_MS).delivery


def test_it_may_have_been_sent_whatever_its_old_record_says() -> None:
    for before in (pending(), claimed(), marked(), after_failure(), after_failure(failure=LOST)):
        after = held(before)
        assert (after.state, after.failed_because) == ("failed", "uncertain")
        assert after.maybe_sent
        assert after.failure is not None
        assert (after.failure.error_class, after.failure.maybe_sent) == (STORE_DAMAGED, True)


def test_recipients_that_were_open_are_in_doubt_and_answers_are_kept() -> None:
    answered = (Recipient("b@example.org", "accepted"), Recipient("c@example.org", "refused"))
    before = addressed("a@example.org")
    before = replace(before, recipients=(*before.recipients, *answered))

    assert held(before).recipients == (Recipient("a@example.org", "maybe"), *answered)


def test_no_attempt_is_counted() -> None:
    before = claimed(after_failure(failure=SOFT))
    change = transitions.hold_for_damage(before, now_ms=LATER_MS)

    assert change.ended == ()
    assert change.delivery.attempts_spent == before.attempts_spent
    assert (change.delivery.first_failed_at_ms, change.delivery.last_failed_at_ms) == (
        NOW_MS,
        LATER_MS,
    )


def test_a_doubt_that_was_waived_is_a_doubt_again() -> None:
    waived = transitions.waive_doubt(claimed(after_failure(failure=LOST))).delivery

    assert (waived.doubt_waived, held(waived).doubt_waived) == (True, False)


def test_its_notices_need_no_plan() -> None:
    """I20"""
    assert held(pending()).notices_due == ("dead_letter", "alert")
    assert held(pending(notices_due=("log", "alert"))).notices_due == (
        "log",
        "alert",
        "dead_letter",
    )


def test_its_parent_counts_it_as_ended() -> None:
    for parent_id, delta in ((None, 0), ("parent", -1)):
        before = pending(parent_id=parent_id)
        assert transitions.hold_for_damage(before, now_ms=LATER_MS).child_delta == delta


def test_a_replay_of_it_is_flagged_as_a_possible_duplicate() -> None:
    replayed = transitions.replay(
        held(pending()), actor="ann", reason="not sent", now_ms=LATER_MS
    ).delivery

    assert (replayed.state, replayed.maybe_duplicate) == ("pending", True)

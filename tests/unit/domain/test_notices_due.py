"""What a transition owes is written with the state, and cleared when it is given (I20)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Change, FailedBecause
from homing.domain.failure import Failure
from homing.domain.policy import Plan
from tests.unit.domain.lives import (
    HARD,
    LOST,
    NOW_MS,
    SEND,
    after_failure,
    claimed,
    failed,
    pending,
    plan,
    stage,
)

REASONS: tuple[FailedBecause, ...] = ("rejected", "exhausted", "uncertain", "expired", "poison")


@pytest.mark.parametrize("because", REASONS)
def test_i20_every_dead_letter_owes_an_alert(because: FailedBecause) -> None:
    ended = transitions.dead_letter(claimed(), because, plan=SEND, now_ms=NOW_MS).delivery

    assert ended.notices_due == ("alert",)


def test_a_reason_and_an_error_class_may_owe_more() -> None:
    rules = plan(
        notify_on_failed=("alert", "line"),
        notify_by_reason={"rejected": ("page",)},
        notify_by_class={"code_defect": ("ticket",)},
    )
    defect = Failure("code_defect", "reject")

    assert after_failure(failure=defect, by_plan=rules).notices_due == (
        "alert",
        "line",
        "page",
        "ticket",
    )
    assert after_failure(failure=HARD, by_plan=rules).notices_due == ("alert", "line", "page")


def test_what_it_owes_by_reason_is_by_the_true_reason() -> None:
    rules = plan(notify_by_reason={"rejected": ("page",), "uncertain": ("call",)})

    ended = after_failure(failure=replace(LOST, disposition="reject"), by_plan=rules)

    assert ended.notices_due == ("alert", "call")


def test_a_replay_that_ends_in_the_same_error_owes_an_escalation() -> None:
    rules = plan(notify_on_repeat=("escalate",))

    def again(failure: Failure) -> tuple[str, ...]:
        ended = after_failure(failure=HARD, by_plan=rules)
        replayed = transitions.replay(ended, actor="ann", reason="x", now_ms=NOW_MS).delivery
        return after_failure(claimed(replayed), failure, by_plan=rules).notices_due

    assert after_failure(failure=HARD, by_plan=rules).notices_due == ("alert",)
    assert again(HARD) == ("alert", "escalate")
    assert again(Failure("other", "reject")) == ("alert",)


def test_a_notice_is_owed_once_however_often_it_fails() -> None:
    replayed = transitions.replay(failed(), actor="ann", reason="x", now_ms=NOW_MS).delivery

    assert after_failure(claimed(replayed), HARD).notices_due == ("alert",)


def test_delivered_owes_what_the_plan_says_and_is_kept_until_it_is_given() -> None:
    def end(rules: Plan) -> Change:
        return transitions.succeed(claimed(), plan=rules, now_ms=NOW_MS, roll=0.0)

    assert (end(SEND).delivery.notices_due, end(SEND).forget) == ((), False)
    assert end(plan(keep_delivered=False)).forget
    logging = end(plan(keep_delivered=False, notify_on_delivered=("log",)))
    assert (logging.delivery.notices_due, logging.forget) == (("log",), False)


@pytest.mark.parametrize(
    ("fields", "rules", "forgotten"),
    [
        ({}, plan(keep_delivered=False), True),
        ({}, plan(keep_delivered=True), False),
        ({}, None, False),
        ({"notices_due": ("alert", "log")}, plan(keep_delivered=False), False),
        ({"state": "failed"}, plan(keep_delivered=False), False),
    ],
)
def test_the_last_notice_of_a_delivery_that_is_not_kept_takes_its_record_away(
    fields: dict[str, Any], rules: Plan | None, forgotten: bool
) -> None:
    ended = pending(**({"state": "delivered", "notices_due": ("log",)} | fields))

    assert transitions.mark_notified(ended, ("log",), plan=rules).forget == forgotten


def test_giving_a_notice_clears_it_and_nothing_else() -> None:
    before = pending(notices_due=("alert", "line", "page"))

    after = transitions.mark_notified(before, ("line", "unknown")).delivery

    assert after == replace(before, notices_due=("alert", "page"))


def test_one_that_will_be_tried_again_owes_nothing() -> None:
    after = after_failure(by_plan=plan(stage(attempts=2)))

    assert (after.state, after.notices_due) == ("pending", ())

"""How often a stage is tried: counted per stage and per cycle, inline or not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Change, Delivery
from homing.domain.failure import RATE_LIMITED, TIMED_OUT, Failure
from homing.domain.policy import Plan
from tests.unit.domain.lives import (
    FAULT,
    HARD,
    MINUTE_MS,
    NOW_MS,
    SEND,
    SKIPPED,
    SOFT,
    STAGED,
    claimed,
    pending,
    plan,
    stage,
)


def fail(before: Delivery, failure: Failure = SOFT, by_plan: Plan = SEND) -> Change:
    return transitions.fail(before, failure, plan=by_plan, now_ms=NOW_MS, roll=0.0)


def fail_until_ended(before: Delivery, by_plan: Plan) -> tuple[Delivery, int]:
    """The dead letter, and how many attempts it took."""
    for attempt in range(1, 100):
        before = fail(claimed(before), by_plan=by_plan).delivery
        if before.state == "failed":
            return before, attempt
    raise AssertionError("it never ended")


@pytest.mark.parametrize("budget", [1, 2, 5, 7])
def test_a_stage_is_tried_exactly_its_budget(budget: int) -> None:
    ended, attempts = fail_until_ended(pending(), plan(stage(attempts=budget)))

    assert attempts == budget
    assert (ended.failed_because, ended.attempts_spent) == ("exhausted", budget)


def test_the_next_attempt_is_due_by_the_schedule() -> None:
    after = fail(claimed()).delivery

    assert (after.state, after.due_at_ms) == ("pending", NOW_MS + MINUTE_MS)
    assert (after.attempts_spent, after.attempts_ended, after.failure) == (1, 1, SOFT)


def test_c_029_a_permanent_failure_ends_it_at_once() -> None:
    after_one = fail(claimed()).delivery

    ended = fail(claimed(after_one), HARD).delivery

    assert (ended.state, ended.failed_because, ended.attempts_spent) == ("failed", "rejected", 2)


def test_each_stage_has_a_budget_of_its_own() -> None:
    staged = plan(stage("fetch", attempts=3), stage("notify", attempts=2))
    tried_twice = pending(stage="fetch", attempts_spent=2)

    onward = transitions.advance(claimed(tried_twice), plan=staged, now_ms=NOW_MS).delivery
    ended, attempts = fail_until_ended(onward, staged)

    assert (onward.stage, onward.attempts_spent, onward.failure) == ("notify", 0, None)
    assert (attempts, ended.stage, ended.failed_because) == (2, "notify", "exhausted")


def test_b_043_a_replay_gives_the_whole_budget_of_the_plan_again() -> None:
    ended, _ = fail_until_ended(pending(max_attempts=9), SEND)
    assert ended.attempts_spent == 9

    again = transitions.replay(ended, actor="ann", reason="fixed", now_ms=NOW_MS).delivery
    _, attempts = fail_until_ended(again, SEND)

    assert attempts == 3


def test_a_delivery_may_have_a_budget_of_its_own() -> None:
    _, attempts = fail_until_ended(pending(max_attempts=5), SEND)

    assert attempts == 5


@pytest.mark.parametrize(("inline_counts", "attempts_in_all"), [(True, 3), (False, 4)])
def test_the_inline_call_counts_or_comes_before_the_budget(
    inline_counts: bool, attempts_in_all: int
) -> None:
    rules = plan(inline_counts=inline_counts)
    inline = replace(claimed(), phase="inline")

    after = fail(inline, by_plan=rules)
    _, more = fail_until_ended(after.delivery, rules)

    assert 1 + more == attempts_in_all
    assert (after.ended[0].phase, after.ended[0].counted) == ("inline", inline_counts)
    assert after.delivery.phase == "worker"


@pytest.mark.parametrize("inline_counts", [True, False])
def test_the_ledger_counts_what_the_budget_counts(inline_counts: bool) -> None:
    rules, inline = plan(inline_counts=inline_counts), replace(claimed(), phase="inline")

    changes = [
        fail(inline, by_plan=rules),
        fail(inline, HARD, by_plan=rules),
        transitions.succeed(inline, plan=rules, now_ms=NOW_MS, roll=0.0),
        transitions.suppress(inline, SKIPPED, plan=rules, now_ms=NOW_MS),
    ]

    assert [change.ended[0].counted for change in changes] == [inline_counts] * 4
    assert [change.delivery.attempts_spent for change in changes] == [int(inline_counts)] * 4


def test_a_fault_of_the_route_costs_nothing_and_keeps_its_turn() -> None:
    before = claimed(pending(attempts_spent=2), at_ms=NOW_MS - 5)

    change = fail(before, FAULT)

    after = change.delivery
    assert (after.state, after.attempts_spent, after.due_at_ms) == ("pending", 2, NOW_MS - 5)
    assert (change.ended[0].status, change.ended[0].counted) == ("route_fault", False)
    assert (after.attempts_ended, after.failure) == (1, FAULT)


def test_a_route_may_treat_its_faults_as_any_failure() -> None:
    failing = fail(claimed(), FAULT, by_plan=plan(on_route_fault="fail")).delivery
    retrying = fail(claimed(), FAULT, by_plan=plan(on_route_fault="retry")).delivery

    assert (failing.state, failing.failed_because) == ("failed", "rejected")
    assert (retrying.state, retrying.attempts_spent) == ("pending", 1)


def test_a_rate_limit_of_the_route_is_not_the_end_of_a_message() -> None:
    limited = Failure(RATE_LIMITED, "route_fault", code="450")

    after = fail(claimed(), limited, by_plan=plan(on_route_fault="fail")).delivery

    assert (after.state, after.attempts_spent) == ("pending", 1)


@pytest.mark.parametrize(
    ("failure", "status"),
    [(SOFT, "failed"), (HARD, "rejected"), (Failure(TIMED_OUT), "timed_out")],
    ids=["soft", "hard", "timeout"],
)
def test_the_ledger_names_how_the_attempt_ended(failure: Failure, status: str) -> None:
    before = claimed(pending(attempts_ended=4, cycle=2), by="w7")

    [attempt] = fail(before, failure).ended

    assert (attempt.number, attempt.cycle, attempt.stage) == (5, 2, "send")
    assert (attempt.status, attempt.error_class) == (status, failure.error_class)
    assert (attempt.code, attempt.detail) == (failure.code, failure.detail)
    assert (attempt.started_at_ms, attempt.ended_at_ms, attempt.holder) == (NOW_MS, NOW_MS, "w7")


def test_a_quiet_stage_leaves_a_line_only_when_it_fails() -> None:
    rendering = claimed(pending(stage="render"))

    good = transitions.advance(rendering, plan=STAGED, now_ms=NOW_MS, result=b"<html>")
    bad = fail(rendering, HARD, by_plan=STAGED)

    assert (good.ended, good.delivery.attempts_ended, good.results) == (
        (),
        0,
        {"render": b"<html>"},
    )
    assert [attempt.stage for attempt in bad.ended] == ["render"]


def test_a_loud_stage_leaves_a_line_when_it_is_done() -> None:
    staged = plan(stage("fetch"), stage("notify"))

    change = transitions.advance(claimed(pending(stage="fetch")), plan=staged, now_ms=NOW_MS)

    assert [(a.number, a.stage, a.status) for a in change.ended] == [(1, "fetch", "done")]
    assert change.delivery.attempts_ended == 1


def test_the_holder_may_go_on_at_once_with_the_next_stage() -> None:
    inline = replace(claimed(pending(stage="render")), phase="inline")

    kept = transitions.advance(
        inline, plan=STAGED, now_ms=NOW_MS, keep_until_ms=NOW_MS + 9
    ).delivery

    assert (kept.state, kept.stage, kept.phase) == ("in_flight", "send", "inline")
    assert (kept.holder, kept.due_at_ms, kept.unsettled_claims) == ("w1", NOW_MS + 9, 1)


def test_it_is_looked_at_in_time_to_be_called_expired() -> None:
    before = claimed(pending(expires_at_ms=NOW_MS + 10))

    after = fail(before).delivery

    assert after.due_at_ms == NOW_MS + 10


@pytest.mark.parametrize(
    ("crashes", "attempts", "because"),
    [(0, 0, None), (4, 2, None), (0, 3, "exhausted"), (5, 0, "poison"), (5, 3, "poison")],
)
def test_what_may_not_be_tried_again(crashes: int, attempts: int, because: str | None) -> None:
    assert transitions.overspent(pending(crashes=crashes, attempts_spent=attempts), SEND) == because


def test_an_attempt_that_ends_shows_that_it_does_not_kill_its_worker() -> None:
    assert fail(claimed(pending(crashes=4))).delivery.crashes == 0


def test_first_and_last_failure_are_dated() -> None:
    first = fail(claimed()).delivery
    later = transitions.fail(
        claimed(first), SOFT, plan=SEND, now_ms=NOW_MS + MINUTE_MS, roll=0.0
    ).delivery

    assert (first.first_failed_at_ms, first.last_failed_at_ms) == (NOW_MS, NOW_MS)
    assert (later.first_failed_at_ms, later.last_failed_at_ms) == (NOW_MS, NOW_MS + MINUTE_MS)

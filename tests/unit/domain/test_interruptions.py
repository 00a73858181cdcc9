"""What the next owner makes of a claim that ended without an outcome (P2 to P6)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Change, Delivery
from homing.domain.policy import Plan
from tests.unit.domain.lives import (
    MINUTE_MS,
    NOW_MS,
    SEND,
    addressed,
    claimed,
    marked,
    pending,
    plan,
)

COUNTING = plan(interrupted_counts=True)


def lost(before: Delivery, times: int) -> Delivery:
    """Claimed by one worker after another, each of which ended in silence but the last."""
    for number in range(times + 1):
        before = claimed(before, by=f"w{number}")
    return before


def give_back(before: Delivery) -> Delivery:
    return transitions.release(before, plan=SEND, now_ms=NOW_MS, roll=0.0).delivery


def note(before: Delivery, by_plan: Plan = SEND, *, alone: bool = False) -> Change:
    return transitions.note_interruption(before, plan=by_plan, now_ms=NOW_MS, roll=0.0, alone=alone)


def test_p2_a_claim_lost_before_the_mark_costs_nothing_and_proves_no_crash() -> None:
    # It may have waited in the inbox of a worker that something else has killed.
    change = note(lost(pending(), 1))

    after = change.delivery
    assert (after.state, after.holder, after.unsettled_claims) == ("in_flight", "w1", 1)
    assert (after.attempts_spent, after.crashes, after.maybe_sent) == (0, 0, False)
    [attempt] = change.ended
    assert (attempt.status, attempt.counted, attempt.window) == ("interrupted", False, None)
    assert after.attempts_ended == attempt.number == 1


def test_i16_a_death_beside_others_is_no_crash_but_makes_it_more_suspect() -> None:
    begun = note(lost(pending(), 1)).delivery
    assert (begun.interruptions, begun.crashes) == (1, 0)

    change = note(claimed(begun, by="w9"))

    after = change.delivery
    assert (after.interruptions, after.crashes, after.attempts_spent) == (2, 0, 0)
    assert [a.counted for a in change.ended] == [False]


def test_i16_a_death_while_it_was_tried_alone_is_a_crash() -> None:
    begun = note(lost(pending(), 1), alone=True).delivery
    assert begun.tried_alone

    after = note(claimed(begun, by="w9")).delivery

    assert (after.crashes, after.tried_alone, after.attempts_spent) == (1, False, 0)


def test_what_is_tried_alone_without_a_loss_before_it_is_written_down_too() -> None:
    alone = transitions.try_alone(claimed(), now_ms=NOW_MS).delivery

    assert note(claimed(alone, by="w9")).delivery.crashes == 1


def test_the_next_owner_knows_how_suspect_it_is_before_it_writes_the_note() -> None:
    before = claimed()
    for deaths in range(1, 5):
        before = claimed(before)
        assert transitions.suspicion(before) == deaths
        before = note(before).delivery
        assert transitions.suspicion(before) == deaths


def test_what_waited_in_line_when_its_holder_died_is_not_more_suspect() -> None:
    released = give_back(claimed(lost(pending(), 1)))
    suspect = replace(released, interruptions=1)

    assert transitions.suspicion(lost(suspect, 1)) == 1


def test_an_outcome_ends_the_suspicion() -> None:
    suspect = replace(begun(), interruptions=2, tried_alone=True)

    after = transitions.succeed(suspect, plan=SEND, now_ms=NOW_MS, roll=0.0).delivery

    assert (after.interruptions, after.tried_alone) == (0, False)


def test_the_ledger_does_not_blame_the_new_owner_for_the_lost_attempt() -> None:
    [attempt] = note(lost(pending(), 1)).ended

    assert (attempt.holder, attempt.started_at_ms) == (None, None)


def test_i16_where_interrupted_attempts_count_the_schedule_goes_on() -> None:
    change = note(lost(pending(), 1), COUNTING)

    after = change.delivery
    assert (after.state, after.attempts_spent, after.due_at_ms) == (
        "pending",
        1,
        NOW_MS + MINUTE_MS,
    )
    assert (after.holder, change.ended[0].counted) == (None, True)


def test_i16_several_lost_claims_cost_one_attempt() -> None:
    # Each owner notes the loss before it begins: only the oldest of them can have begun.
    change = note(lost(pending(attempts_spent=2), 3), COUNTING)

    after = change.delivery
    assert after.attempts_spent == 3
    assert [(a.number, a.counted) for a in change.ended] == [(1, True), (2, False), (3, False)]


def test_with_no_budget_left_it_stays_in_hand_to_be_given_up() -> None:
    after = note(lost(pending(attempts_spent=2), 1), COUNTING).delivery

    assert (after.state, transitions.overspent(after, COUNTING)) == ("in_flight", "exhausted")


def test_i16_an_owner_without_budget_cannot_have_begun() -> None:
    spent = note(lost(pending(attempts_spent=2), 1), COUNTING).delivery
    assert transitions.overspent(spent, COUNTING) == "exhausted"

    after = note(claimed(spent, by="w9"), COUNTING).delivery

    assert after.attempts_spent == 3


@pytest.mark.parametrize("by_plan", [SEND, COUNTING], ids=["not counting", "counting"])
def test_p4_a_crash_after_the_mark_leaves_doubt_and_counts(by_plan: Plan) -> None:
    change = note(lost(marked(), 0), by_plan)

    after = change.delivery
    assert (after.maybe_sent, after.doubt_waived, after.committing) == (True, False, False)
    assert (after.attempts_spent, after.crashes, after.interruptions) == (1, 0, 1)
    [attempt] = change.ended
    assert (attempt.maybe_sent, attempt.window, attempt.counted) == (True, "W1", True)


def test_i10_only_the_claim_that_wrote_the_mark_is_in_doubt() -> None:
    # The mark begins the count of claims anew, so the oldest lost claim is the marked one.
    change = note(lost(marked(lost(pending(), 0)), 2))

    assert [a.maybe_sent for a in change.ended] == [True, False, False]
    assert [a.window for a in change.ended] == ["W1", None, None]
    assert [a.counted for a in change.ended] == [True, False, False]
    assert change.delivery.interruptions == 1


def test_the_recipients_of_a_marked_attempt_are_in_doubt_as_well() -> None:
    sent = marked(claimed(addressed("a@example.org", "b@example.org")))

    after = note(claimed(sent, by="w2")).delivery

    assert [r.outcome for r in after.recipients] == ["maybe", "maybe"]
    assert after.open_addresses == ("a@example.org", "b@example.org")


@pytest.mark.parametrize("inline_counts", [True, False])
def test_an_interrupted_inline_attempt_counts_as_inline_ones_do(inline_counts: bool) -> None:
    rules = plan(inline_counts=inline_counts, interrupted_counts=True)
    inline = replace(claimed(), phase="inline")

    change = note(claimed(claimed(inline, by="w2"), by="w3"), rules)

    assert [(a.phase, a.counted) for a in change.ended] == [
        ("inline", inline_counts),
        ("worker", False),
    ]
    assert (change.delivery.attempts_spent, change.delivery.phase) == (int(inline_counts), "worker")


def begun(rules: Plan = SEND) -> Delivery:
    """In the hands of an owner that has noted the loss of another and begins."""
    return note(lost(pending(), 1), rules).delivery


@pytest.mark.parametrize("crashes", [1, 2, 5])
def test_a_delivery_that_crashes_its_workers_is_poison(crashes: int) -> None:
    rules = plan(max_crashes=crashes)
    after = note(lost(pending(), 1), rules, alone=True).delivery
    for _ in range(crashes):
        assert transitions.overspent(after, rules) is None
        after = note(claimed(after), rules, alone=True).delivery

    assert transitions.overspent(after, rules) == "poison"
    ended = transitions.dead_letter(after, "poison", plan=rules, now_ms=NOW_MS).delivery
    assert (ended.state, ended.failed_because) == ("failed", "poison")


def test_kills_from_outside_never_make_poison() -> None:
    after = claimed()
    for number in range(20):
        after = note(claimed(marked(after), by=f"w{number}")).delivery

    assert after.crashes == 0


def test_what_is_given_back_untouched_is_no_attempt_and_no_crash() -> None:
    after = give_back(claimed(at_ms=NOW_MS - 7))

    assert (after.state, after.holder, after.due_at_ms) == ("pending", None, NOW_MS - 7)
    assert (after.attempts_spent, after.crashes, after.attempts_ended) == (0, 0, 0)
    assert note(claimed(after)).delivery.crashes == 0


def test_i7_giving_back_does_not_wipe_what_an_earlier_holder_left_in_doubt() -> None:
    sent = marked(claimed(by="w1"))

    given_back = give_back(claimed(sent, by="w2"))
    after = note(claimed(given_back, by="w3")).delivery

    assert (after.maybe_sent, after.attempts_spent) == (True, 1)


def test_i7_what_may_have_been_sent_is_uncertain_when_it_is_cancelled() -> None:
    given_back = give_back(claimed(marked(claimed()), by="w2"))
    assert given_back.maybe_sent

    cancelled = transitions.cancel(given_back, plan=SEND, now_ms=NOW_MS).delivery
    assert (cancelled.state, cancelled.failed_because) == ("failed", "uncertain")

    dismissed = transitions.dismiss(cancelled, now_ms=NOW_MS).delivery
    restored = transitions.restore(dismissed, now_ms=NOW_MS).delivery
    assert (restored.state, restored.failed_because) == ("failed", "uncertain")


def test_a_dead_holders_lease_ends_at_once_by_everybodys_clock() -> None:
    after = transitions.end_lease(claimed(at_ms=NOW_MS), now_ms=NOW_MS + 5).delivery

    assert (after.state, after.holder, after.due_at_ms) == ("in_flight", None, 0)


def test_the_mark_is_dated_by_the_first_commit_and_keeps_the_frozen_bytes() -> None:
    change = transitions.mark_committing(
        claimed(pending(committed_at_ms=NOW_MS - 9)),
        now_ms=NOW_MS,
        lease_until_ms=NOW_MS + MINUTE_MS,
        frozen={"frozen": b"mime"},
    )

    after = change.delivery
    assert (after.committing, after.committed_at_ms) == (True, NOW_MS - 9)
    assert (after.due_at_ms, change.results) == (NOW_MS + MINUTE_MS, {"frozen": b"mime"})

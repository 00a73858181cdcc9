"""What the operator's verbs do to a delivery, field by field."""

from __future__ import annotations

from msgspec.structs import asdict, replace

from homing.domain import transitions
from homing.domain.delivery import Change, Content, Cycle, Delivery, Receipt, Recipient
from homing.domain.policy import Retention
from tests.unit.domain.lives import (
    HARD,
    LOST,
    MINUTE_MS,
    NOW_MS,
    SEND,
    SOFT,
    STAGED,
    addressed,
    after_failure,
    cancelled,
    claimed,
    failed,
    pending,
    plan,
    stage,
)

LATER_MS = NOW_MS + MINUTE_MS


def replay(before: Delivery, **words: str | int) -> Delivery:
    given = {"actor": "ann", "reason": "provider is back", "now_ms": LATER_MS} | words
    return transitions.replay(before, **given).delivery  # type: ignore[arg-type] # by name


def amend(before: Delivery, addresses: tuple[str, ...] | None = None) -> Change:
    return transitions.amend(before, b"better", plan=STAGED, now_ms=LATER_MS, addresses=addresses)


def changed_fields(before: Delivery, after: Delivery) -> set[str]:
    was, now = asdict(before), asdict(after)
    return {name for name in was if was[name] != now[name]}


def test_i21_replay_keeps_the_identity_and_the_stage_and_begins_a_cycle() -> None:
    before = replace(failed(), key="k1", stage="send", crashes=2, expires_at_ms=NOW_MS)

    after = replay(before)

    assert (after.id, after.key, after.stage) == ("d1", "k1", "send")
    assert (after.state, after.due_at_ms, after.ended_at_ms) == ("pending", LATER_MS, None)
    assert (after.cycle, after.attempts_spent, after.crashes) == (2, 0, 0)
    assert (after.failed_because, after.failure, after.expires_at_ms) == (None, None, None)
    assert after.attempts_ended == before.attempts_ended


def test_e_034_replay_writes_the_finished_cycle_down() -> None:
    before = replace(failed(), generation=3)

    after = replay(before, generation=4)

    assert after.failure_history == (
        Cycle(
            number=1,
            attempts=1,
            stage="send",
            failed_because="rejected",
            last_error=HARD.detail,
            error_class=HARD.error_class,
            code=HARD.code,
            first_failed_at_ms=NOW_MS,
            failed_at_ms=NOW_MS,
            generation=3,
            replayed_at_ms=LATER_MS,
            replayed_by="ann",
            reason="provider is back",
        ),
    )
    assert after.generation == 4


def test_every_replay_adds_one_cycle_to_the_history() -> None:
    after = failed()
    for _ in range(3):
        after = after_failure(claimed(replay(after)), HARD)

    assert [cycle.number for cycle in after.failure_history] == [1, 2, 3]
    assert (after.cycle, after.attempts_ended) == (4, 4)


def test_a_replay_may_hand_it_to_another_queue() -> None:
    assert replay(failed(), queue="mail@2").queue == "mail@2"
    assert replay(failed()).queue == failed().queue


def test_a_notice_still_owed_survives_the_replay() -> None:
    assert replay(failed()).notices_due == ("alert",)


def test_restart_begins_with_the_first_stage_and_drops_the_results() -> None:
    before = replace(failed(), stage="send", fanned_out=True)

    change = transitions.restart(
        before, plan=STAGED, actor="ann", reason="template fixed", now_ms=LATER_MS
    )

    after = change.delivery
    assert (after.stage, after.fanned_out, change.drop_results) == ("render", False, True)
    assert (after.cycle, after.failure_history[-1].stage) == (2, "send")


def test_dismiss_closes_a_dead_letter_and_keeps_its_reason() -> None:
    after = transitions.dismiss(failed(), now_ms=LATER_MS).delivery

    assert (after.state, after.failed_because, after.ended_at_ms) == (
        "dismissed",
        "rejected",
        LATER_MS,
    )
    assert after.failure == HARD


def test_restore_undoes_a_dismissal() -> None:
    dead = failed()
    dismissed = transitions.dismiss(dead, now_ms=LATER_MS).delivery

    after = transitions.restore(dismissed, now_ms=LATER_MS).delivery

    assert changed_fields(dead, after) <= {"updated_at_ms"}
    assert replay(after).state == "pending"


def test_restore_undoes_a_cancellation() -> None:
    after = transitions.restore(cancelled(), now_ms=LATER_MS).delivery

    assert changed_fields(pending(), after) <= {"updated_at_ms", "due_at_ms"}
    assert after.due_at_ms == LATER_MS


def test_i13_what_was_scheduled_for_tomorrow_is_not_sent_today_by_a_change_of_mind() -> None:
    tomorrow_ms = NOW_MS + 24 * 60 * MINUTE_MS

    after = transitions.restore(cancelled(due_at_ms=tomorrow_ms), now_ms=LATER_MS).delivery

    assert after.due_at_ms == tomorrow_ms


def test_cancel_withdraws_what_has_not_begun() -> None:
    after = cancelled(due_at_ms=LATER_MS)

    assert (after.state, after.failed_because, after.due_at_ms) == ("dismissed", None, None)
    assert after.ended_at_ms == NOW_MS


def test_confirm_keeps_the_operators_evidence() -> None:
    uncertain = failed(LOST)

    after = transitions.confirm(
        uncertain, plan=SEND, evidence="she has it", now_ms=LATER_MS
    ).delivery

    assert (after.state, after.failed_because, after.maybe_sent) == ("delivered", None, False)
    assert after.receipt == Receipt("", LATER_MS, "operator", "she has it")
    assert after.ended_at_ms == LATER_MS


def test_amend_keeps_a_dead_letter_dead_and_its_replay_begins_anew() -> None:
    before = replace(failed(), stage="send", attempts_spent=3, fanned_out=True)

    change = amend(before)
    replayed = replay(change.delivery)

    assert (change.payload, change.drop_results, change.delivery.payload_no) == (b"better", True, 2)
    assert (change.delivery.state, change.delivery.failed_because) == ("failed", "rejected")
    assert (replayed.stage, replayed.fanned_out, replayed.attempts_spent) == ("render", False, 0)
    assert (replayed.failure_history[0].stage, replayed.failure_history[0].attempts) == ("send", 3)
    assert replay(after_failure(claimed(replayed), HARD, by_plan=STAGED)).stage == "render"


def test_a_pending_one_that_is_amended_begins_with_the_first_stages_whole_budget() -> None:
    staged = plan(stage("render", attempts=1), stage("send", attempts=4))
    before = pending(stage="send", attempts_spent=3)

    after = transitions.amend(before, b"better", plan=staged, now_ms=LATER_MS).delivery

    assert (after.stage, after.attempts_spent) == ("render", 0)
    assert transitions.overspent(after, staged) is None
    assert after.due_at_ms == before.due_at_ms


def test_a_corrected_address_is_the_one_that_is_sent_to() -> None:
    before = pending(
        recipients=(
            Recipient("ann@example.org", "accepted"),
            Recipient("bob@exmaple.org", "refused", "550"),
        )
    )

    after = amend(before, ("ann@example.org", "bob@example.org")).delivery

    assert after.open_addresses == ("bob@example.org",)
    assert after.recipients[0] == Recipient("ann@example.org", "accepted")


def test_an_amendment_without_addresses_leaves_the_envelope() -> None:
    before = addressed("ann@example.org")

    assert amend(before).delivery.recipients == before.recipients


def test_i21_a_clone_is_a_second_delivery_with_a_life_of_its_own() -> None:
    original = replace(
        failed(LOST),
        key="k1",
        intent="order-1",
        topic="receipt",
        priority=1,
        fingerprint="f00d",
        generation=7,
        cycle=3,
        recipients=(Recipient("ann@example.org", "accepted"),),
        metadata={"trace": "1"},
    )

    new = transitions.clone(
        original,
        Content(b"hello", {"frozen": b"old bytes"}),
        plan=replace(STAGED, retention=Retention(key_s=60.0)),
        new_id="d2",
        source="operator_resend",
        key="resend:d1:1",
        now_ms=LATER_MS,
    )

    clone = new.delivery
    assert (clone.id, clone.clone_of, clone.state, clone.stage) == (
        "d2",
        "d1",
        "pending",
        "render",
    )
    assert (clone.cycle, clone.attempts_spent, clone.attempts_ended, clone.maybe_sent) == (
        1,
        0,
        0,
        False,
    )
    assert (clone.intent, clone.failure, clone.failure_history) == (None, None, ())
    assert clone.recipients == (Recipient("ann@example.org"),)
    assert (clone.topic, clone.priority, clone.generation, clone.metadata) == (
        "receipt",
        1,
        7,
        {"trace": "1"},
    )
    assert (new.payload, clone.created_at_ms, clone.due_at_ms) == (b"hello", LATER_MS, LATER_MS)
    [key] = new.keys
    assert (key.source, key.key, key.delivery_id) == ("operator_resend", "resend:d1:1", "d2")
    assert (key.fingerprint, key.expires_at_ms, clone.key_term_s) == ("f00d", None, 60.0)


def test_suppressed_at_intake_it_has_ended_without_an_attempt() -> None:
    change = transitions.suppress_at_intake(pending(), "stub mode", now_ms=NOW_MS)

    after = change.delivery
    assert (after.state, after.attempts_spent, change.ended) == ("suppressed", 0, ())
    assert after.failure is not None
    assert after.failure.detail == "stub mode"


def test_soft_failures_of_the_past_do_not_stand_in_the_way_of_delivered() -> None:
    after = transitions.succeed(
        claimed(after_failure(failure=SOFT)), plan=SEND, now_ms=NOW_MS, roll=0.0
    ).delivery

    assert (after.state, after.failed_because, after.attempts_spent) == ("delivered", None, 2)

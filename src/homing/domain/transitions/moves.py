"""The small moves that transitions are made of; none is a transition by itself."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from homing.domain import recipients
from homing.domain.delivery import (
    Attempt,
    AttemptStatus,
    Change,
    Delivery,
    DoubtWindow,
    FailedBecause,
    Receipt,
    State,
)
from homing.domain.failure import CHILDREN_FAILED, Failure
from homing.domain.policy import Plan


def overspent(delivery: Delivery, plan: Plan) -> FailedBecause | None:
    """Why no further attempt may start, if so: too many crashes or no budget left."""
    if delivery.crashes >= plan.max_crashes:
        return "poison"
    budget = delivery.max_attempts or plan.stage(delivery.stage).retry.max_attempts
    return "exhausted" if delivery.attempts_spent >= budget else None


def next_attempt_ms(
    delivery: Delivery, failure: Failure, plan: Plan, now_ms: int, roll: float
) -> int:
    retry = plan.stage(delivery.stage).retry
    due_at_ms = now_ms + retry.delay_ms(delivery.attempts_spent + 1, failure, roll)
    if delivery.expires_at_ms is None:
        return due_at_ms
    # At its expiry it is looked at again, to be dead-lettered in time.
    return min(due_at_ms, max(delivery.expires_at_ms, now_ms))


def back_in_line(delivery: Delivery, now_ms: int) -> Delivery:
    """Due as it was when it was claimed: it keeps its turn."""
    return to_state(delivery, due_at_ms=delivery.claimed_at_ms or now_ms, now_ms=now_ms)


def to_state(
    delivery: Delivery,
    *,
    due_at_ms: int | None,
    now_ms: int,
    state: State = "pending",
    **more: object,
) -> Delivery:
    """Nobody's any more; `more` is changed in the same copy."""
    return replace(
        delivery,
        state=state,
        holder=None,
        unsettled_claims=0,
        claimed_at_ms=None,
        committing=False,
        interruption_noted=False,
        interruptions=0,
        tried_alone=False,
        phase="worker",
        due_at_ms=due_at_ms,
        updated_at_ms=now_ms,
        **more,
    )


def end(delivery: Delivery, state: State, now_ms: int, **more: object) -> Delivery:
    return to_state(
        delivery, due_at_ms=None, now_ms=now_ms, state=state, ended_at_ms=now_ms, **more
    )


def evidence_of(
    delivery: Delivery, answered: recipients.Recipients, receipt: Receipt
) -> dict[str, object]:
    """Acceptance dispels the doubt, but for a recipient refused now who may have it already."""
    in_doubt = any(r.outcome == "maybe" for r in answered)
    return {
        "receipt": receipt,
        "recipients": answered,
        "maybe_sent_at_ms": delivery.maybe_sent_at_ms if in_doubt else None,
        "doubt_waived": delivery.doubt_waived and in_doubt,
    }


def settle_by_evidence(delivery: Delivery, plan: Plan, now_ms: int, receipt: Receipt) -> Change:
    answered = recipients.accept_open(delivery.recipients, {})
    evidence = evidence_of(delivery, answered, receipt)
    if all(r.outcome == "accepted" for r in answered):
        return deliver(delivery, plan, now_ms, evidence)
    after = replace(delivery, **evidence)
    after = note_failure(after, recipients.summary(answered, permanent=True), now_ms)
    return dead_letter(after, "rejected", plan, now_ms)


def deliver(
    delivery: Delivery,
    plan: Plan,
    now_ms: int,
    evidence: Mapping[str, object],
    *,
    ended: tuple[Attempt, ...] = (),
    results: dict[str, bytes] | None = None,
) -> Change:
    notices_due = owing(delivery, plan.notify_on_delivered)
    after = end(
        delivery,
        "delivered",
        now_ms,
        crashes=0,
        failed_because=None,
        notices_due=notices_due,
        **evidence,
    )
    forget = not (plan.keep_delivered or notices_due)
    return closing(Change(after, ended=ended, results=results or {}, forget=forget))


def dead_letter(
    delivery: Delivery,
    because: FailedBecause,
    plan: Plan,
    now_ms: int,
    *,
    ended: tuple[Attempt, ...] = (),
) -> Change:
    # Never call "not sent" what may have been sent.
    because = "uncertain" if delivery.maybe_sent else because
    error_class = delivery.failure.error_class if delivery.failure else ""
    notices = (
        *plan.notify_on_failed,
        *plan.notify_by_reason.get(because, ()),
        *plan.notify_by_class.get(error_class, ()),
    )
    if because == "rejected" and _same_class_again(delivery, error_class):
        notices = (*notices, *plan.notify_on_repeat)
    after = end(
        delivery,
        "failed",
        now_ms,
        failed_because=because,
        first_failed_at_ms=delivery.first_failed_at_ms or now_ms,
        last_failed_at_ms=delivery.last_failed_at_ms or now_ms,
        notices_due=owing(delivery, notices),
    )
    return closing(Change(after, ended=ended))


def _same_class_again(delivery: Delivery, error_class: str) -> bool:
    """A replay ended in the very error that it was to mend; a child's error is its own."""
    return (
        error_class != CHILDREN_FAILED
        and bool(delivery.failure_history)
        and (delivery.failure_history[-1].error_class == error_class)
    )


def attempt_of(
    delivery: Delivery,
    status: AttemptStatus,
    now_ms: int,
    *,
    counted: bool = True,
    failure: Failure | None = None,
    receipt: Receipt | None = None,
    window: DoubtWindow | None = None,
) -> Attempt:
    maybe_sent = bool(failure and failure.maybe_sent)
    return Attempt(
        delivery_id=delivery.id,
        number=delivery.attempts_ended + 1,
        stage=delivery.stage,
        status=status,
        cycle=delivery.cycle,
        phase=delivery.phase,
        counted=counted,
        started_at_ms=delivery.claimed_at_ms,
        ended_at_ms=now_ms,
        holder=delivery.holder,
        error_class=failure.error_class if failure else None,
        code=failure.code if failure else None,
        detail=failure.detail if failure else None,
        notification_id=receipt.notification_id if receipt else None,
        maybe_sent=maybe_sent,
        window=window or ("W1" if maybe_sent else None),
    )


def counts_as_attempt(delivery: Delivery, plan: Plan) -> bool:
    return delivery.phase == "worker" or plan.inline_counts


def note_failure(delivery: Delivery, failure: Failure, now_ms: int) -> Delivery:
    answered = delivery.recipients
    maybe_sent_at_ms, doubt_waived = delivery.maybe_sent_at_ms, delivery.doubt_waived
    if failure.refused:
        answered = recipients.note_refusals(answered, failure.refused)
    if failure.maybe_sent:
        maybe_sent_at_ms, doubt_waived = now_ms, False
        answered = recipients.put_in_doubt(answered)
    return replace(
        delivery,
        failure=failure,
        recipients=answered,
        maybe_sent_at_ms=maybe_sent_at_ms,
        doubt_waived=doubt_waived,
        first_failed_at_ms=delivery.first_failed_at_ms or now_ms,
        last_failed_at_ms=now_ms,
    )


def owing(delivery: Delivery, notices: tuple[str, ...]) -> tuple[str, ...]:
    if not notices:
        return delivery.notices_due
    return (
        *delivery.notices_due,
        *(notice for notice in notices if notice not in delivery.notices_due),
    )


def closing(change: Change) -> Change:
    """A child that ends takes itself off its parent's open count."""
    return replace(change, child_delta=-1) if change.delivery.parent_id else change


def reopening(change: Change) -> Change:
    return replace(change, child_delta=1 if change.delivery.parent_id else 0, reopens=True)


def result_of_stage(delivery: Delivery, result: bytes | None) -> dict[str, bytes]:
    return {} if result is None else {delivery.stage: result}

"""The effects of an attempt: budget spent, a row of the ledger, the failure on the delivery."""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain import recipients
from homing.domain.delivery import (
    Attempt,
    AttemptStatus,
    Delivery,
    DoubtWindow,
    FailedBecause,
    Receipt,
)
from homing.domain.failure import Failure
from homing.domain.policy import Plan


def overspent(delivery: Delivery, plan: Plan) -> FailedBecause | None:
    """Why no further attempt may start: too many crashes, or no budget left. None: one may."""
    if delivery.crashes >= plan.max_crashes:
        return "poison"
    budget = delivery.max_attempts or plan.stage(delivery.stage).retry.max_attempts
    return "exhausted" if delivery.attempts_spent >= budget else None


def counts_as_attempt(delivery: Delivery, plan: Plan) -> bool:
    return delivery.phase == "worker" or plan.inline_counts


def next_attempt_ms(
    delivery: Delivery, failure: Failure, plan: Plan, now_ms: int, roll: float
) -> int:
    retry = plan.stage(delivery.stage).retry
    due_at_ms = now_ms + retry.delay_ms(delivery.attempts_spent + 1, failure, roll)
    if delivery.expires_at_ms is None:
        return due_at_ms
    # It is due again at its expiry, to be dead-lettered in time.
    return min(due_at_ms, max(delivery.expires_at_ms, now_ms))


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
        notification_id=(receipt.notification_id or None) if receipt else None,
        maybe_sent=maybe_sent,
        window=window or ("W1" if maybe_sent else None),
    )


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

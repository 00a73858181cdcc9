"""The two final states with notices, delivered and dead letter; and marking notices as given."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from homing.domain import recipients
from homing.domain.delivery import Attempt, Change, Delivery, FailedBecause, Receipt
from homing.domain.failure import CHILDREN_FAILED
from homing.domain.policy import Plan
from homing.domain.transitions.attempts import note_failure
from homing.domain.transitions.states import count_ended, end
from homing.domain.transitions.table import transition


def evidence_of(
    delivery: Delivery, answered: recipients.Recipients, receipt: Receipt
) -> dict[str, object]:
    """Acceptance ends the doubt, except for a recipient that is refused now and may have it."""
    in_doubt = any(r.outcome == "maybe" for r in answered)
    return {
        "receipt": receipt,
        "recipients": answered,
        "maybe_sent_at_ms": delivery.maybe_sent_at_ms if in_doubt else None,
        "earlier_maybe_sent": delivery.earlier_maybe_sent and in_doubt,
        "doubt_waived": delivery.doubt_waived and in_doubt,
    }


def end_by_evidence(delivery: Delivery, plan: Plan, now_ms: int, receipt: Receipt) -> Change:
    answered = recipients.accept_open(delivery.recipients, {})
    evidence = evidence_of(delivery, answered, receipt)
    if all(r.outcome == "accepted" for r in answered):
        return end_delivered(delivery, plan, now_ms, evidence)
    after = replace(delivery, **evidence)
    after = note_failure(after, recipients.summary(answered, permanent=True), now_ms)
    return end_failed(after, "rejected", plan, now_ms)


def end_delivered(
    delivery: Delivery,
    plan: Plan,
    now_ms: int,
    evidence: Mapping[str, object],
    *,
    ended: tuple[Attempt, ...] = (),
    results: dict[str, bytes] | None = None,
) -> Change:
    after = end(
        delivery,
        "delivered",
        now_ms,
        crashes=0,
        failed_because=None,
        notices_due=with_notices(delivery, plan.notify_on_delivered),
        **evidence,
    )
    forget = is_forgotten(after, plan)
    return count_ended(Change(after, ended=ended, results=results or {}, forget=forget))


def end_failed(
    delivery: Delivery,
    because: FailedBecause,
    plan: Plan,
    now_ms: int,
    *,
    ended: tuple[Attempt, ...] = (),
) -> Change:
    # Never call "not sent" what may have been sent.
    because = "uncertain" if delivery.possibly_sent else because
    error_class = delivery.failure.error_class if delivery.failure else ""
    notices = (
        *plan.notify_on_failed,
        *plan.notify_by_reason.get(because, ()),
        *plan.notify_by_class.get(error_class, ()),
    )
    if because == "rejected" and _same_class_again(delivery, error_class):
        notices = (*notices, *plan.notify_on_repeat)
    return end_failed_with(delivery, because, notices, now_ms, ended=ended)


def end_failed_with(
    delivery: Delivery,
    because: FailedBecause,
    notices: tuple[str, ...],
    now_ms: int,
    *,
    ended: tuple[Attempt, ...] = (),
) -> Change:
    """As `end_failed`, with these notices in place of those that a plan names."""
    after = end(
        delivery,
        "failed",
        now_ms,
        failed_because=because,
        first_failed_at_ms=delivery.first_failed_at_ms or now_ms,
        last_failed_at_ms=delivery.last_failed_at_ms or now_ms,
        notices_due=with_notices(delivery, notices),
    )
    return count_ended(Change(after, ended=ended))


@transition(
    sources=("pending", "waiting", "delivered", "suppressed", "failed", "dismissed"),
    targets=("pending", "waiting", "delivered", "suppressed", "failed", "dismissed"),
)
def mark_notified(
    delivery: Delivery, notices: tuple[str, ...], *, plan: Plan | None = None
) -> Change:
    """Notices that were due have been given.

    With the last one, the record of a delivery that its plan does not keep is removed. Without a
    plan (its route is not known here) every record stays.
    """
    left = tuple(notice for notice in delivery.notices_due if notice not in notices)
    after = replace(delivery, notices_due=left)
    return Change(after, forget=plan is not None and is_forgotten(after, plan))


def is_forgotten(delivery: Delivery, plan: Plan) -> bool:
    """Whether to remove the record: delivered, every notice given, and not kept by the plan."""
    return delivery.state == "delivered" and not (plan.keep_delivered or delivery.notices_due)


def with_notices(delivery: Delivery, notices: tuple[str, ...]) -> tuple[str, ...]:
    if not notices:
        return delivery.notices_due
    return (
        *delivery.notices_due,
        *(notice for notice in notices if notice not in delivery.notices_due),
    )


def _same_class_again(delivery: Delivery, error_class: str) -> bool:
    """Whether a replay ended in the same error as before it; a child's error is its own."""
    return (
        error_class != CHILDREN_FAILED
        and bool(delivery.failure_history)
        and (delivery.failure_history[-1].error_class == error_class)
    )

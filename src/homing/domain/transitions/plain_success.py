"""The end of most deliveries: no recipient is refused and nothing is in doubt."""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain.delivery import Attempt, Change, Delivery, Receipt, Recipient
from homing.domain.policy import Plan
from homing.domain.transitions.doubt import dated
from homing.domain.transitions.endings import with_notices


def succeed_plainly(
    delivery: Delivery, plan: Plan, now_ms: int, receipt: Receipt | None, result: bytes | None
) -> Change:
    """All open recipients have accepted it.

    The same as the long form in `outcomes`, in fewer calls; a test compares the two.
    """
    counts = delivery.phase == "worker" or plan.inline_counts
    number = delivery.attempts_ended + 1
    notices_due = delivery.notices_due
    if plan.notify_on_delivered:
        notices_due = with_notices(delivery, plan.notify_on_delivered)
    accepted = delivery.recipients and tuple(
        [
            Recipient(r.address, "accepted") if r.outcome == "open" else r
            for r in delivery.recipients
        ]
    )
    after = replace(
        delivery,
        state="delivered",
        holder=None,
        unsettled_claims=0,
        claimed_at_ms=None,
        committing=False,
        interruption_noted=False,
        interruptions=0,
        tried_alone=False,
        phase="worker",
        due_at_ms=None,
        updated_at_ms=now_ms,
        ended_at_ms=now_ms,
        crashes=0,
        failed_because=None,
        notices_due=notices_due,
        receipt=Receipt(accepted_at_ms=now_ms) if receipt is None else dated(receipt, now_ms),
        recipients=accepted,
        earlier_maybe_sent=False,
        doubt_waived=False,
        attempts_ended=number,
        attempts_spent=delivery.attempts_spent + counts,
    )
    ended = Attempt(
        delivery_id=delivery.id,
        number=number,
        stage=delivery.stage,
        status="done",
        cycle=delivery.cycle,
        phase=delivery.phase,
        counted=counts,
        started_at_ms=delivery.claimed_at_ms,
        ended_at_ms=now_ms,
        holder=delivery.holder,
        notification_id=receipt.notification_id if receipt else None,
    )
    return Change(
        after,
        ended=(ended,),
        results={} if result is None else {delivery.stage: result},
        child_delta=-1 if delivery.parent_id else 0,
        forget=not (plan.keep_delivered or notices_due),
    )

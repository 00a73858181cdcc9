"""The attempt that delivered is implied by the delivered record and needs no row.

It is implied only if it can be rebuilt exactly from the record and two columns (its holder and its
start); any other attempt is a row of the ledger.
"""

from __future__ import annotations

from homing.domain.delivery import Attempt, Delivery
from homing.domain.writes import Write


def implied_attempt(delivery: Delivery, done_by: str | None, done_since_ms: int | None) -> Attempt:
    receipt = delivery.receipt
    return Attempt(
        delivery_id=delivery.id,
        number=delivery.attempts_ended,
        stage=delivery.stage,
        status="done",
        cycle=delivery.cycle,
        started_at_ms=done_since_ms,
        ended_at_ms=delivery.ended_at_ms,
        holder=done_by,
        notification_id=(receipt.notification_id or None) if receipt is not None else None,
    )


def implies_attempt(write: Write) -> bool:
    """Whether the delivered record contains everything about the one attempt of this write."""
    if write.delivery.state != "delivered" or len(write.attempts) != 1 or write.removes:
        return False
    attempt = write.attempts[0]
    return attempt == implied_attempt(write.delivery, attempt.holder, attempt.started_at_ms)

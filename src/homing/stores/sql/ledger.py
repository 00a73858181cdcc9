"""The attempt that delivered is implied by the delivered record and needs no row.

It is implied only if it can be rebuilt exactly from the record and two columns (its holder and its
start); any other attempt is a row of the ledger.
"""

from __future__ import annotations

from typing import NamedTuple

from homing.domain.delivery import Attempt, Delivery
from homing.domain.writes import Write
from homing.stores.codec import encode_text
from homing.stores.sql.columns import Row

# What a row carries beside its record; bits of the column `carries`.
CARRIES_PAYLOAD = 1
CARRIES_RESULTS = 2
CARRIES_ATTEMPT = 4


class Implied(NamedTuple):
    """What the row of a delivered record says about the attempt that it implies."""

    done_by: str | None
    done_since_ms: int | None


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


def attempt_row(route: str, attempt: Attempt) -> Row:
    """In the order of the columns: delivery_id, number, route, ended_at_ms, record."""
    number, ended_at_ms = attempt.number, attempt.ended_at_ms
    return (attempt.delivery_id, number, route, ended_at_ms, encode_text(attempt))

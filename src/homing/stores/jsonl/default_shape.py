"""The fields of a line whose route has no Shape of its own: what a person looks for first."""

from __future__ import annotations

from homing.domain.delivery import Delivery
from homing.stores.codec import encode
from homing.stores.shape import iso_utc, iso_utc_or_none


def default_line(delivery: Delivery, head: bytes | None) -> tuple[bytes, int]:
    """As `Projection.line`."""
    head = head or _head(delivery)
    return head + _tail(delivery), len(head)


def _head(delivery: Delivery) -> bytes:
    shown = {
        "id": delivery.id,
        "route": delivery.route,
        "source": delivery.source,
        "key": delivery.key,
        "to": [recipient.address for recipient in delivery.recipients],
        "created_at": iso_utc(delivery.created_at_ms),
    }
    return encode(shown)[:-1]


def _tail(delivery: Delivery) -> bytes:
    is_pending = delivery.state == "pending"
    shown = {
        "updated_at": iso_utc(delivery.updated_at_ms),
        "status": delivery.state,
        "stage": delivery.stage,
        "attempts": delivery.attempts_spent,
        "next_attempt_at": iso_utc_or_none(delivery.due_at_ms if is_pending else None),
        "error": delivery.failure.error_class if delivery.failure else None,
    }
    return b"," + encode(shown)[1:-1]

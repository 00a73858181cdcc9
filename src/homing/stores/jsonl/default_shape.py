"""The fields of a line whose route has no Shape of its own: what a person looks for first."""

from __future__ import annotations

from homing.domain.delivery import Content, Delivery
from homing.domain.shown import Projection
from homing.stores.codec import encode
from homing.stores.shape import iso_utc, iso_utc_or_none


def halves_of(
    projection: Projection | None, delivery: Delivery, content: Content | None
) -> tuple[bytes | None, bytes]:
    """Head and tail of its line, without the last brace; a head only with the content."""
    found = None if projection is None else projection.halves(delivery, content)
    if found is None:
        return (None if content is None else _head(delivery)), _tail(delivery)
    head, tail = found
    return head, tail[:-1]


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

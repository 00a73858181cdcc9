"""The fields of a line whose route has no Shape of its own: what a person looks for first."""

from __future__ import annotations

from msgspec import Struct

from homing.domain.delivery import Delivery
from homing.stores.codec import encode
from homing.stores.shape import iso_utc, iso_utc_or_none


def default_line(delivery: Delivery, head: bytes | None) -> tuple[bytes, int]:
    """As `Projection.line`."""
    head = head or _head(delivery)
    return head + _tail(delivery), len(head)


class _Head(Struct):
    id: str
    route: str
    source: str
    key: str | None
    to: list[str]
    created_at: str


class _Tail(Struct):
    updated_at: str
    status: str
    stage: str
    attempts: int
    next_attempt_at: str | None
    error: str | None


def _head(delivery: Delivery) -> bytes:
    shown = _Head(
        delivery.id,
        delivery.route,
        delivery.source,
        delivery.key,
        [recipient.address for recipient in delivery.recipients],
        iso_utc(delivery.created_at_ms),
    )
    return encode(shown)[:-1]


def _tail(delivery: Delivery) -> bytes:
    shown = _Tail(
        iso_utc(delivery.updated_at_ms),
        delivery.state,
        delivery.stage,
        delivery.attempts_spent,
        iso_utc_or_none(delivery.due_at_ms if delivery.state == "pending" else None),
        delivery.failure.error_class if delivery.failure else None,
    )
    return b"," + encode(shown)[1:-1]

"""The row of `core.outbox`, the cycles in its `failure_history`, and the alert on a failure."""

from __future__ import annotations

import re

import msgspec

from homing.domain.delivery import Delivery
from homing.domain.errors import InvalidRequest
from homing.domain.message import Event, Json, decode_message
from homing.plugins import Foreign, ForeignState, event_id
from homing.stores.layout import Record, RecordLayout, Stored, iso_utc, iso_utc_or_none, ms_from_iso
from homing_systems.events.policy import failure_cycle
from homing_systems.events.route import LABELS, EventFields, request_for

_MILLISECONDS = re.compile("[0-9]{1,14}")


def alert_fields(delivery: Delivery, handler_name: str) -> dict[str, str | int | None]:
    """What an alert on `failed` tells."""
    return {
        "event_id": event_id(delivery),
        "event_type": delivery.topic or "",
        "source": delivery.source,
        "target": delivery.metadata.get("target"),
        "handler_name": handler_name,
        "last_error": _last_error(delivery) or "",
        "attempts": delivery.attempts_spent,
    }


def _write(stored: Stored) -> Record:
    delivery = stored.delivery
    return {
        "event_id": delivery.id,
        "event_type": delivery.topic,
        "source": delivery.source,
        "target": delivery.metadata.get("target"),
        "idempotency_key": delivery.key,
        "payload": _data(stored.content.payload),
        "status": LABELS.word(delivery),
        "generation": delivery.generation,
        "attempts": delivery.attempts_spent,
        "last_error": _last_error(delivery),
        "first_failed_at": iso_utc_or_none(delivery.first_failed_at_ms),
        "failure_history": [
            msgspec.to_builtins(failure_cycle(cycle)) for cycle in delivery.failure_history
        ],
        "created_at": iso_utc(delivery.created_at_ms),
        "deleted_at": iso_utc_or_none(_deleted_at_ms(delivery)),
    }


def _read(row: Record) -> Foreign:
    """A row as a producer inserts it, in any language: new, and due at once."""
    if row["status"] != "pending" or row["deleted_at"] is not None:
        raise InvalidRequest("status", "of a new event is pending")
    request = request_for(
        EventFields(
            event_id=row["event_id"],
            event_type=row["event_type"],
            payload=row["payload"],
            source=row["source"],
            target=row["target"],
            idempotency_key=row["idempotency_key"],
            generation=row["generation"],
        )
    )
    return Foreign(
        request, ForeignState(created_at_ms=ms_from_iso(row["created_at"], "created_at"))
    )


def _data(payload: bytes) -> Json:
    if not payload:
        return None  # removed after its time
    message = decode_message(payload)
    if not isinstance(message, Event):
        raise InvalidRequest("payload", "is not an event")
    return message.data


def _deleted_at_ms(delivery: Delivery) -> int | None:
    """Of a delivered row that came from elsewhere it is kept beside the state, in metadata.

    Metadata may also come from a producer, who can write any text there.
    """
    if delivery.state == "dismissed":
        return delivery.ended_at_ms
    kept = delivery.metadata.get("deleted_at_ms", "")
    if LABELS.word(delivery) == "delivered" and _MILLISECONDS.fullmatch(kept):
        return int(kept)
    return None


def _last_error(delivery: Delivery) -> str | None:
    failure = delivery.failure
    return (failure.detail or failure.error_class) if failure else None


LAYOUT = RecordLayout(
    names={
        "table": "core.outbox",
        "handled": "core.event_handled",
        "enqueue": "core.outbox_enqueue",
        "replay": "core.outbox_replay",
    },
    fields=(
        "event_id",
        "event_type",
        "source",
        "target",
        "idempotency_key",
        "payload",
        "status",
        "generation",
        "attempts",
        "last_error",
        "first_failed_at",
        "failure_history",
        "created_at",
        "deleted_at",
    ),
    labels=LABELS,
    write=_write,
    read=_read,
)

"""The row of `core.outbox`, the cycles in its `failure_history`, and the alert on a failure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from homing.assemblies.events.route import LABELS, EventFields, Subscription, request_for
from homing.domain.delivery import Cycle, Delivery
from homing.domain.errors import InvalidRequest
from homing.domain.message import Event, Json, decode_message
from homing.engine.adopting import Foreign, Standing
from homing.stores.shape import Record, Shape, Stored, iso_utc, iso_utc_or_none, ms_from_iso


class FailureCycle(Struct, frozen=True, kw_only=True):
    """One finished round of attempts. The shape may only gain fields."""

    cycle: int
    attempts: int
    last_error: str | None
    first_failed_at: str | None
    failed_at: str | None
    generation: int
    replayed_at: str
    replayed_by: str


def failure_cycle(cycle: Cycle) -> FailureCycle:
    return FailureCycle(
        cycle=cycle.number,
        attempts=cycle.attempts,
        last_error=cycle.last_error,
        first_failed_at=iso_utc_or_none(cycle.first_failed_at_ms),
        failed_at=iso_utc_or_none(cycle.failed_at_ms),
        generation=cycle.generation,
        replayed_at=iso_utc(cycle.replayed_at_ms),
        replayed_by=cycle.replayed_by,
    )


def alert_fields(delivery: Delivery, handler_names: Mapping[str, str]) -> dict[str, str | int]:
    """What an alert on `failed` tells. `handler_names` knows the types with a single handler."""
    event_type = delivery.topic or ""
    handler_name = delivery.metadata.get("handler") or handler_names.get(event_type, "")
    return {
        "event_id": delivery.parent_id or delivery.id,
        "event_type": event_type,
        "source": delivery.source,
        "target": delivery.metadata.get("target", ""),
        "handler_name": handler_name,
        "last_error": _last_error(delivery) or "",
        "attempts": delivery.attempts_spent,
    }


def handler_names(*subscriptions: Subscription) -> dict[str, str]:
    return {subscription.event_type: subscription.name for subscription in subscriptions}


def _write(stored: Stored) -> Record:
    delivery = stored.delivery
    return {
        "event_id": delivery.id,
        "event_type": delivery.topic,
        "source": delivery.source,
        "target": delivery.metadata.get("target", ""),
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
        "deleted_at": iso_utc_or_none(
            delivery.ended_at_ms if delivery.state == "dismissed" else None
        ),
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
    return Foreign(request, Standing(created_at_ms=ms_from_iso(row["created_at"], "created_at")))


def _data(payload: bytes) -> Json:
    message = decode_message(payload)
    if not isinstance(message, Event):
        raise InvalidRequest("payload", "is not an event")
    return message.data


def _last_error(delivery: Delivery) -> str | None:
    failure = delivery.failure
    return (failure.detail or failure.error_class) if failure else None


SHAPE = Shape(
    names={
        "table": "core.outbox",
        "handled": "core.event_handled",
        "replay": "core.outbox_replay",
        "migration": "20260425014302_core_outbox_failure_history.sql",
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

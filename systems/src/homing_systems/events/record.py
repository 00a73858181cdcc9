"""The row of `core.outbox`, the cycles in its `failure_history`, and the alert on a failure."""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from homing.domain.delivery import Delivery, FailedBecause
from homing.domain.errors import InvalidRequest
from homing.domain.failure import Failure
from homing.domain.message import Event, Json, decode_message
from homing.domain.shown import Table
from homing.plugins import Foreign, ForeignState, StandingState, event_id
from homing.stores.layout import (
    Record,
    RecordLayout,
    Stored,
    iso_utc,
    iso_utc_or_none,
    ms_from_iso,
)
from homing_systems.events.following import follow
from homing_systems.events.policy import cycle_of, failure_cycle
from homing_systems.events.route import LABELS, EventFields, request_for

_MILLISECONDS = re.compile("[0-9]{1,14}")
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


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


def _head(stored: Stored) -> Record:
    delivery = stored.delivery
    return {
        "event_id": delivery.id,
        "event_type": delivery.topic,
        "source": delivery.source,
        "target": delivery.metadata.get("target"),
        "idempotency_key": delivery.key,
        "payload": _data(stored.content.payload),
        "created_at": iso_utc(delivery.created_at_ms),
    }


def _tail(delivery: Delivery) -> Record:
    return {
        "status": LABELS.word(delivery),
        "generation": delivery.generation,
        "attempts": delivery.attempts_spent,
        "last_error": _last_error(delivery),
        "first_failed_at": iso_utc_or_none(delivery.first_failed_at_ms),
        "failure_history": [
            msgspec.to_builtins(failure_cycle(cycle)) for cycle in delivery.failure_history
        ],
        "deleted_at": iso_utc_or_none(_deleted_at_ms(delivery)),
    }


def _has_row(delivery: Delivery) -> bool:
    """An event with several handlers has a delivery for each of them, too. Ids that are not UUIDs
    belong to events that the library was given an id for."""
    return delivery.parent_id is None and _UUID.fullmatch(delivery.id) is not None


def _read(row: Record) -> Foreign:
    """A row as a producer inserts it, in any language, or as an earlier program left it. What that
    was just trying is pending here."""
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
    status, error, deleted_at = row["status"], row["last_error"], row["deleted_at"]
    if status not in LAYOUT.words:
        raise InvalidRequest("status", f"{status!r} is not one of {', '.join(LAYOUT.words)}")
    created_at_ms = ms_from_iso(row["created_at"], "created_at")
    deleted_at_ms = None if deleted_at is None else ms_from_iso(deleted_at, "deleted_at")
    state: StandingState = "pending" if status == "in_flight" else status
    failed_because: FailedBecause | None = "exhausted" if status == "failed" else None
    if deleted_at_ms is not None and state == "delivered":
        metadata = {**request.metadata, "deleted_at_ms": str(deleted_at_ms)}
        request = replace(request, metadata=metadata)
    elif deleted_at_ms is not None:
        # Once deleted_at is taken back it is a dead letter, also one that was never tried.
        state, failed_because = "dismissed", failed_because or "rejected"
    failure = None
    if error is not None or status == "failed":
        failure = Failure("imported", detail=error or "")
    first_failed_at = row["first_failed_at"]
    return Foreign(
        request,
        ForeignState(
            created_at_ms=created_at_ms,
            updated_at_ms=deleted_at_ms,
            state=state,
            failed_because=failed_because,
            attempts_spent=row["attempts"],
            failure=failure,
            first_failed_at_ms=first_failed_at and ms_from_iso(first_failed_at, "first_failed_at"),
            failure_history=tuple(map(cycle_of, row["failure_history"] or ())),
        ),
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
        "created_at",
        "status",
        "generation",
        "attempts",
        "last_error",
        "first_failed_at",
        "failure_history",
        "deleted_at",
    ),
    labels=LABELS,
    head=_head,
    tail=_tail,
    table=Table(
        "core.outbox", "event_id", _has_row, json=frozenset({"payload", "failure_history"})
    ),
    read=_read,
    follow=follow,
)

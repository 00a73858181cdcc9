"""A RecordLayout that no design has: its words, times and kinds differ from the engine's."""

from __future__ import annotations

import hashlib
from typing import Any

from homing.domain.delivery import Attempt, Delivery, Fact, Key
from homing.domain.policy import Retention
from homing.engine.ops.labels import Label, LabelTable
from homing.stores.layout import (
    HIDDEN,
    Record,
    RecordKind,
    RecordLayout,
    Stored,
    iso_utc,
    iso_utc_or_none,
)
from homing.stores.projecting import LayoutProjection

LABELS = LabelTable(
    (
        Label("QUEUED", "pending", attempted=False),
        Label("RETRYING", "pending"),
        Label("RUNNING", "in_flight"),
        Label("RUNNING", "waiting"),
        Label("SENT", "delivered"),
        Label("SENT", "suppressed"),
        Label("DEAD", "failed"),
        Label(HIDDEN, "dismissed"),
    )
)


def _head(stored: Stored) -> Record:
    delivery, payload = stored.delivery, stored.content.payload
    return {
        "number": delivery.id,
        "since": iso_utc(delivery.created_at_ms),
        "text": hashlib.sha256(payload).hexdigest(),
    }


def _tail(delivery: Delivery) -> Record:
    return {
        "status": LABELS.word(delivery),
        "tries": delivery.attempts_spent,
        "running_since": iso_utc_or_none(delivery.claimed_at_ms),
        "running_since_ms": delivery.claimed_at_ms,
        "next_try": iso_utc_or_none(delivery.due_at_ms),
        "error": delivery.failure.error_class if delivery.failure else None,
    }


def _index(delivery: Delivery) -> tuple[str, ...]:
    return f"status/{LABELS.word(delivery)}", f"source/{delivery.source}"


def _attempt(attempt: Attempt) -> Record:
    return {"try": attempt.number, "outcome": attempt.status.upper()}


def _key(key: Key) -> Record:
    return {"of": key.delivery_id, "until": iso_utc_or_none(key.expires_at_ms)}


def _dead_letter(delivery: Delivery) -> Record | None:
    if delivery.state != "failed":
        return None
    return {"number": delivery.id, "because": delivery.failed_because}


def _malformed(fact: Fact) -> Record:
    return {"entry": fact.key, "says": fact.value}


FOREIGN = RecordLayout(
    names={"queue": "queue/"},
    fields=(
        "number",
        "since",
        "text",
        "status",
        "tries",
        "running_since",
        "running_since_ms",
        "next_try",
        "error",
    ),
    labels=LABELS,
    key=lambda delivery: f"queue/{delivery.id}",
    head=_head,
    tail=_tail,
    index=_index,
    attempt=RecordKind(
        fields=("try", "outcome"),
        key=lambda attempt: f"tries/{attempt.delivery_id}/{attempt.number}",
        write=_attempt,
    ),
    key_record=RecordKind(
        fields=("of", "until"), key=lambda key: f"keys/{key.source}/{key.key}", write=_key
    ),
    dead_letter=RecordKind(
        fields=("number", "because"),
        key=lambda delivery: f"dead/{delivery.id}",
        write=_dead_letter,
    ),
    facts={
        "malformed": RecordKind(
            fields=("entry", "says"),
            key=lambda fact: f"malformed/{fact.key}",
            write=_malformed,
            kept_s=3600.0,
        ),
        "offset": RecordKind(
            fields=("at",),
            key=lambda fact: f"offsets/{fact.key}",
            write=lambda fact: {"at": fact.at_ms},
        ),
    },
)


class _OfEveryRoute(dict[str, RecordLayout]):
    """The cases of the suite name routes as they like."""

    def get(self, _route: str, _default: Any = None) -> RecordLayout:
        return FOREIGN


def foreign_projection(retention: Retention | None = None) -> LayoutProjection:
    """For a store that is to show the foreign RecordLayout for whatever it holds."""
    kept = Retention.forever() if retention is None else retention
    return LayoutProjection(_OfEveryRoute({"any": FOREIGN}), lambda _: kept)

"""The fields of a line whose route has no RecordLayout: what a person looks for first."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct, field

from homing.domain.delivery import Delivery
from homing.stores.jsonl.lines import QueueRecord
from homing.stores.layout import iso_utc

# Records written together have few different times.
_iso = lru_cache(maxsize=1024)(iso_utc)


class DefaultLine(Struct, gc=False):
    """A whole line, but for its checksum."""

    id: str
    route: str
    source: str
    key: str | None
    to: list[str]
    created_at: str
    updated_at: str
    status: str
    stage: str
    attempts: int
    next_attempt_at: str | None
    error: str | None
    homing: QueueRecord = field(name="_homing")


def default_line(delivery: Delivery, record: QueueRecord) -> DefaultLine:
    due_at_ms = delivery.due_at_ms if delivery.state == "pending" else None
    return DefaultLine(
        delivery.id,
        delivery.route,
        delivery.source,
        delivery.key,
        [recipient.address for recipient in delivery.recipients],
        _iso(delivery.created_at_ms),
        _iso(delivery.updated_at_ms),
        delivery.state,
        delivery.stage,
        delivery.attempts_spent,
        None if due_at_ms is None else _iso(due_at_ms),
        delivery.failure.error_class if delivery.failure else None,
        record,
    )

"""Shapes: how a design wants its records written. Values and pure functions; stores do the I/O.

A store keeps its own record of a delivery. A Shape turns that into the record which a design's
document describes (its columns, fields, keys and words), and back as far as that makes sense.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from msgspec import Struct, field

from homing.domain.delivery import Attempt, Content, Delivery, New
from homing.domain.errors import InvalidRequest
from homing.engine.labels import LabelTable

HIDDEN = ""
"""The word of a delivery that its design does not show."""

Record: TypeAlias = dict[str, Any]
"""What one JSON object or one row can hold."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Stored(Struct, frozen=True):
    """All that a store holds of one delivery: what its record is made of."""

    delivery: Delivery
    content: Content = Content()
    attempts: tuple[Attempt, ...] = ()

    @property
    def newest_attempt_at_ms(self) -> int | None:
        """When the newest attempt began: the running one's time, or that of the last ended one."""
        if self.delivery.claimed_at_ms is not None:
            return self.delivery.claimed_at_ms
        return self.attempts[-1].started_at_ms if self.attempts else None


class Shape(Struct, frozen=True, kw_only=True):
    """One kind of record. `names` are its tables, keys and files; `fields` its exact fields.

    `optional` fields may stand in a record that is read; they are never required.
    """

    names: Mapping[str, str]
    fields: tuple[str, ...]
    labels: LabelTable
    write: Callable[[Stored], Record]
    read: Callable[[Record], New] | None = None
    optional: frozenset[str] = field(default_factory=frozenset)

    @property
    def words(self) -> tuple[str, ...]:
        """The status words that the design shows."""
        return tuple(word for word in self.labels.words() if word != HIDDEN)

    def record(self, stored: Stored) -> Record | None:
        """The record as the design shows it; None while it shows none."""
        if self.labels.word(stored.delivery) == HIDDEN:
            return None
        record = self.write(stored)
        if tuple(record) != self.fields:
            raise AssertionError(f"the record's fields are {tuple(record)}, not {self.fields}")
        return record

    def parse(self, record: Record) -> New:
        """The delivery that a record written by somebody else stands for."""
        if self.read is None:
            raise InvalidRequest("record", "is not read back in this design")
        for name in self.fields:
            if name not in record:
                raise InvalidRequest(name, "is missing")
        for name in record.keys() - set(self.fields) - self.optional:
            raise InvalidRequest(name, "is unknown")
        return self.read(record)


def iso_utc(at_ms: int) -> str:
    """ISO 8601 with a zone mark, of fixed width: the order of the texts is the order in time."""
    second_s, rest_ms = divmod(at_ms, 1000)
    return f"{datetime.fromtimestamp(second_s, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ms:03d}Z"


def iso_utc_or_none(at_ms: int | None) -> str | None:
    return None if at_ms is None else iso_utc(at_ms)


def ms_from_iso(text: object, name: str) -> int:
    """Milliseconds from any ISO 8601 text; without a zone mark it is read as UTC."""
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError as error:
        raise InvalidRequest(name, "is not an ISO 8601 time") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MILLISECOND

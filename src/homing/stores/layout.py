"""Record layouts: how a plugin's own records look. Values and pure functions without I/O.

A store keeps its own record of a delivery. A RecordLayout turns that into the record which the
plugin's design specifies (its columns, fields, keys and words), and back where that is possible.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from homing.domain.delivery import Attempt, Content, Delivery, Fact, Key
from homing.domain.errors import InvalidRequest
from homing.domain.shown import Table
from homing.engine.intake.adopting import Foreign
from homing.engine.ops.labels import LabelTable

HIDDEN = ""
"""The word of a delivery that its design does not show."""

Record: TypeAlias = dict[str, Any]
"""What one JSON object or one row can hold."""

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Stored(Struct, frozen=True):
    """Everything that a store has about one delivery; its record is made from this."""

    delivery: Delivery
    content: Content = Content()
    attempts: tuple[Attempt, ...] = ()

    @property
    def next_attempt_at_ms(self) -> int | None:
        """When the next attempt is due, or else when the newest one began. Designs whose column
        is never empty show it while an attempt runs and after the last one, too."""
        delivery = self.delivery
        if delivery.state == "pending":
            return delivery.due_at_ms
        if delivery.claimed_at_ms is not None:
            return delivery.claimed_at_ms
        return self.attempts[-1].started_at_ms if self.attempts else None


class RecordKind(Struct, Generic[T], frozen=True, kw_only=True):
    """A kind of record besides that of the delivery: its key and its exact fields.

    `write` returns None for what the design does not show. `kept_s` is for records of facts; the
    others are kept according to the route's retention.
    """

    fields: tuple[str, ...]
    key: Callable[[T], str]
    write: Callable[[T], Record | None]
    kept_s: float | None = None

    def record(self, value: T) -> Record | None:
        """What `write` returns, checked to have exactly the `fields`."""
        record = self.write(value)
        return None if record is None else _checked(record, self.fields)


class RecordLayout(Struct, frozen=True, kw_only=True):
    """The records that a design specifies. `names` are its tables, keys and files.

    The delivery's own record has exactly `fields`; those in `optional` may also occur in one that
    is read, and those in `raw` are read as bytes. A record that is only shown has `write`.
    For stores that write the record themselves it has two halves: `head`, from the request, and
    then `tail`, from the delivery as `as_shown` returns it. `key` returns the key of the record;
    in a SQL database the record is a row of `table`.
    `index` returns the names under which the record is indexed. The other kinds of record are for
    such stores, too; `facts` are by the kind of fact (a malformed command, the offset of a stream).

    `read` returns the request and the state in a record that another program wrote. `follow` is
    given the Homing, a delivery, its row as another program changed it (None: deleted it), and who
    did; it makes the delivery what the row says, or raises a HomingError to refuse that.
    """

    names: Mapping[str, str]
    fields: tuple[str, ...]
    labels: LabelTable
    write: Callable[[Stored], Record] | None = None
    key: Callable[[Delivery], str] | None = None
    head: Callable[[Stored], Record] | None = None
    tail: Callable[[Delivery], Record] | None = None
    index: Callable[[Delivery], tuple[str, ...]] | None = None
    attempt: RecordKind[Attempt] | None = None
    key_record: RecordKind[Key] | None = None
    dead_letter: RecordKind[Delivery] | None = None
    facts: Mapping[str, RecordKind[Fact]] = field(default_factory=dict)
    table: Table | None = None
    read: Callable[[Record], Foreign] | None = None
    follow: Callable[[Any, Delivery, Record | None, str], Awaitable[None]] | None = None
    optional: frozenset[str] = field(default_factory=frozenset)
    raw: frozenset[str] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        if self.write is None and self.tail is None:
            raise ValueError("a RecordLayout needs `write`, or `tail` (and `head`)")

    @property
    def words(self) -> tuple[str, ...]:
        """The status words that the design shows."""
        return tuple(word for word in self.labels.words() if word != HIDDEN)

    def record(self, stored: Stored) -> Record | None:
        """The record as the design specifies it; None if there is none in this state."""
        if self.labels.word(stored.delivery) == HIDDEN:
            return None
        if self.write is not None:
            return _checked(self.write(stored), self.fields)
        halves = self.head(stored) if self.head is not None else {}
        if self.tail is not None:
            halves = halves | self.tail(as_shown(stored.delivery))
        return _checked(halves, self.fields)

    def parse(self, record: Record) -> Foreign:
        """The request and the state in a record that another program wrote."""
        if self.read is None:
            raise InvalidRequest("record", "cannot be adopted: this RecordLayout has no `read`")
        for name in self.fields:
            if name not in record:
                raise InvalidRequest(name, "is missing")
        for name in record.keys() - set(self.fields) - self.optional:
            raise InvalidRequest(name, "is unknown")
        return self.read(record)


def as_shown(delivery: Delivery) -> Delivery:
    """Without fields that a store changes without the engine: a record cannot follow them.

    Of a claim only its time is visible, of a lease nothing, and no count of children.
    """
    return replace(
        delivery,
        version=0,
        holder=None,
        unsettled_claims=0,
        open_children=0,
        due_at_ms=delivery.due_at_ms if delivery.state == "pending" else None,
    )


def _checked(record: Record, fields: tuple[str, ...]) -> Record:
    if tuple(record) != fields:
        raise AssertionError(f"the record's fields are {tuple(record)}, not {fields}")
    return record


def iso_utc(at_ms: int) -> str:
    """ISO 8601 with a zone mark, of fixed width: the order of the texts is the order in time."""
    second_s, rest_ms = divmod(at_ms, 1000)
    return f"{_iso_second(second_s)}.{rest_ms:03d}Z"


# Records written together have few different seconds, and formatting is what costs.
@lru_cache(maxsize=1024)
def _iso_second(second_s: int) -> str:
    return f"{datetime.fromtimestamp(second_s, UTC):%Y-%m-%dT%H:%M:%S}"


def iso_utc_or_none(at_ms: int | None) -> str | None:
    """As `iso_utc`; None for a time that is not set."""
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

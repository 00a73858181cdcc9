"""A change for the server: encoded, with what this process knows of the stored record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from homing.domain.delivery import Delivery, Fact
from homing.domain.writes import Write
from homing.ports import Put
from homing.stores.codec import encode, encode_text
from homing.stores.sql.columns import Row, column_change
from homing.stores.sql.ledger import implies_attempt
from homing.stores.sql.postgres.adding import NewEntry, new_entry
from homing.stores.sql.postgres.rows import (
    CARRIES_ATTEMPT,
    CARRIES_RESULTS,
    attempt_row,
    delivery_row,
)

# More than any process holds at once. A forgotten record is read again.
MOST_KNOWN = 16_384


class ChangeEntry(Struct, gc=False):
    """A write over a stored version, encoded, and its answer.

    `is_held` if this process has claimed it: then its row is open, and `fresh` is set if no other
    columns change. `record` is None if it does not change. `done` is the holder and the start of an
    attempt that the record implies.
    """

    write: Write
    carries: int
    is_held: bool = False
    fresh: Row | None = None
    row: Row = ()
    record: str | None = None
    attempts: Sequence[Row] = ()
    done: Row = (None, None)
    facts: Sequence[Row] = ()
    children: Sequence[NewEntry] = ()
    kept: bool = False


class SaveRequest(Struct, gc=False):
    """What one call of `save` asks for."""

    entries: list[ChangeEntry]
    facts: Sequence[Fact]


class HeldRecords:
    """The records of the deliveries that this process has claimed, as they are stored.

    A cache: while the stored version is the same, so is the record, and a save can leave it out if
    only columns change. The save itself proves that the version is the same.
    """

    def __init__(self) -> None:
        self._known: dict[str, Delivery] = {}

    def remember(self, delivery: Delivery) -> None:
        known = self._known
        known[delivery.id] = delivery
        if len(known) > MOST_KNOWN:
            del known[next(iter(known))]

    def of(self, write: Write) -> Delivery | None:
        """What is stored, if the version that was read is the one known here."""
        known = self._known.get(write.delivery.id)
        return known if known is not None and known.version == write.over else None

    def saved(self, entries: Iterable[ChangeEntry]) -> None:
        """What is still in flight is known by its next version."""
        for entry in entries:
            delivery = entry.write.delivery
            if entry.kept and delivery.state == "in_flight":
                self.remember(replace(delivery, version=delivery.version + 1))
            else:
                self._known.pop(delivery.id, None)


def save_request(put: Put, held: HeldRecords) -> SaveRequest:
    return SaveRequest([_entry(write, held.of(write)) for write in put.writes], put.facts)


def _entry(write: Write, before: Delivery | None) -> ChangeEntry:
    delivery = write.delivery
    entry = ChangeEntry(write, CARRIES_RESULTS if write.results else 0)
    if write.attempts:
        _note_attempts(entry)
    if write.facts:
        entry.facts = [
            (fact.kind, fact.key, fact.at_ms, None if fact.value is None else _text(fact.value))
            for fact in write.facts
        ]
    if write.children:
        entry.children = [new_entry(child) for child in write.children]
    if before is not None and _is_simple(entry):
        entry.fresh, record_changes = column_change(before, delivery)
        entry.is_held = not record_changes or addresses(before) == addresses(delivery)
        if not record_changes:
            return entry
    entry.row = delivery_row(delivery)
    entry.record = encode_text(delivery)
    return entry


def _is_simple(entry: ChangeEntry) -> bool:
    """One row of each kind at most, and nothing that has to be read first."""
    write = entry.write
    return (
        write.is_plain
        and write.due_at_zero_ms is None
        and write.count is None
        and len(write.results) <= 1
        and len(write.terms) <= 1
        and len(entry.attempts) <= 1
        and (not entry.facts or (len(entry.facts) == 1 and entry.facts[0][3] is not None))
    )


def _note_attempts(entry: ChangeEntry) -> None:
    write = entry.write
    if implies_attempt(write):
        [attempt] = write.attempts
        entry.done = (attempt.holder, attempt.started_at_ms)
        entry.carries |= CARRIES_ATTEMPT
    else:
        entry.attempts = [attempt_row(write.delivery.route, one) for one in write.attempts]


def _text(value: object) -> str:
    return encode(value).decode()


def addresses(delivery: Delivery) -> list[str]:
    return [recipient.address for recipient in delivery.recipients]

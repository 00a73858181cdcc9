"""A change for the writer: encoded, with what is known of its row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from msgspec import Struct

from homing.domain.delivery import Delivery, Fact
from homing.domain.writes import Write
from homing.stores.codec import encode_text
from homing.stores.sql.columns import Row, column_change
from homing.stores.sql.ledger import implies_attempt
from homing.stores.sql.sqlite.adding import NewEntry, new_entry
from homing.stores.sql.sqlite.places import Place
from homing.stores.sql.sqlite.rows import (
    CARRIES_ATTEMPT,
    CARRIES_PAYLOAD,
    CARRIES_RESULTS,
    HANDS,
    attempt_row,
    delivery_row,
)


class ChangeEntry(Struct, gc=False):
    """A write over a stored version, encoded before it comes to the writer, and its answer.

    Either `fresh` is set (all columns that change) or `row`. `record` is None if it does not
    change. `before` is what the write changes, as soon as it is known. `in_hand`: holder and lease
    do not change. `done` is the holder and the start of an
    attempt that the record implies.
    """

    write: Write
    seq: int | None
    carries: int
    attempts: Sequence[Row] = ()
    done: Row = (None, None)
    fresh: Row | None = None
    in_hand: bool = False
    row: Row = ()
    record: str | None = None
    children: Sequence[NewEntry] = ()
    before: Delivery | None = None
    kept: bool = True


class SaveRequest(Struct, gc=False):
    entries: list[ChangeEntry]
    facts: Sequence[Fact]


def change_entry(write: Write, place: Place | None) -> ChangeEntry:
    entry = ChangeEntry(write, None, CARRIES_RESULTS if write.results else 0)
    if write.attempts:
        _note_attempts(entry)
    if not write.is_plain:
        if write.payload is not None:
            entry.carries |= CARRIES_PAYLOAD | CARRIES_RESULTS
        entry.children = [new_entry(child) for child in write.children]
    elif place is not None and write.due_at_zero_ms is None:
        seq, before = place
        fresh, record_changes = column_change(before, write.delivery)
        # Recipients have rows of their own, of which those that are stored must be read first.
        if not record_changes or addresses(before) == addresses(write.delivery):
            entry.seq, entry.fresh, entry.before = seq, fresh, before
            entry.in_hand = write.delivery.state == "in_flight" and _hands(before) == _hands(
                write.delivery
            )
        if not record_changes:
            return entry
    if entry.fresh is None:
        entry.row = delivery_row(write.delivery)
    entry.record = encode_text(write.delivery)
    return entry


def _note_attempts(entry: ChangeEntry) -> None:
    write = entry.write
    if implies_attempt(write):
        [attempt] = write.attempts
        entry.done = (attempt.holder, attempt.started_at_ms)
        entry.carries |= CARRIES_ATTEMPT
    else:
        entry.attempts = [attempt_row(write.delivery.route, one) for one in write.attempts]


_hands: Callable[[Delivery], Row] = attrgetter(*HANDS)


def addresses(delivery: Delivery) -> list[str]:
    return [recipient.address for recipient in delivery.recipients]

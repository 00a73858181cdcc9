"""The records of a RecordLayout for a write: bytes and index names, ready to be put."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import (
    CLAIMABLE_STATES,
    Attempt,
    Change,
    Content,
    Delivery,
    Fact,
    Key,
    New,
)
from homing.domain.policy import Retention
from homing.domain.shown import CLAIM_ISO, CLAIM_MS, ShownRecord, Table, TableRow
from homing.engine.expiry import attempt_gone_at_ms, dead_letter_gone_at_ms, delivery_gone_at_ms
from homing.engine.queues import route_of
from homing.stores.codec import encode
from homing.stores.layout import HIDDEN, Record, RecordKind, RecordLayout, Stored, as_shown, iso_utc

# A time that no clock shows (in the year 9871): a claim replaces it in a record by its own time.
_CLAIM_AT_MS = 249_337_419_287_613
_CLAIM_AT = {
    str(_CLAIM_AT_MS).encode(): CLAIM_MS,
    iso_utc(_CLAIM_AT_MS).encode(): CLAIM_ISO,
}


class LayoutProjection:
    """The projection of all record layouts, each by the name of its queue or route.

    `retention_of` returns how long the records of a delivery are kept after its end.
    """

    def __init__(
        self,
        layouts: Mapping[str, RecordLayout],
        retention_of: Callable[[Delivery], Retention] = lambda _: Retention.forever(),
    ) -> None:
        self._layouts = layouts
        self._retention_of = retention_of
        self._facts = {
            kind: record for layout in layouts.values() for kind, record in layout.facts.items()
        }

    def of_new(self, new: New, keys: Sequence[Key]) -> tuple[ShownRecord, ...]:
        layout = self._layout_of(new.delivery)
        if layout is None:
            return ()
        content = Content(new.payload, new.results)
        return (
            *self._of_delivery(layout, new.delivery, content),
            *self._of_keys(layout, keys),
        )

    def of_change(self, change: Change, keys: Sequence[Key]) -> tuple[ShownRecord, ...]:
        delivery = change.delivery
        layout = self._layout_of(delivery)
        if layout is None:
            return ()
        kept = not change.forget
        content = None if change.payload is None else Content(change.payload)
        return (
            *(self._of_delivery(layout, delivery, content) if kept else ()),
            *(self._of_attempts(layout, delivery, change.ended) if kept else ()),
            *self._of_keys(layout, keys),
        )

    def line(
        self,
        delivery: Delivery,
        content: Callable[[], Content],
        attempts: Sequence[Attempt],
        head: bytes | None,
    ) -> tuple[bytes, int] | None:
        layout = self._layout_of(delivery)
        if layout is None:
            return None
        if layout.tail is None:
            record = layout.record(Stored(delivery, content(), tuple(attempts)))
            return encode(record or {})[:-1], 0
        head = head or _head(layout, delivery, content())
        return head + _tail(layout, delivery)[:-1], len(head)

    def of_facts(self, facts: Sequence[Fact]) -> tuple[ShownRecord, ...]:
        shown = []
        for fact in facts:
            kind = self._facts.get(fact.kind)
            if kind is None:
                continue
            gone_at_ms = None if kind.kept_s is None else fact.at_ms + round(kind.kept_s * 1000)
            record = _whole(kind, fact, gone_at_ms=gone_at_ms, is_shown=fact.value is not None)
            shown.append(replace(record, owned=False))
        return tuple(shown)

    def tables(self) -> Sequence[Table]:
        found = [layout.table for layout in self._layouts.values() if layout.table is not None]
        return list({table.name: table for table in found}.values())

    def has_table(self, queue: str) -> bool:
        layout = self._layouts.get(queue) or self._layouts.get(route_of(queue))
        return layout is not None and layout.table is not None

    def table(self, delivery: Delivery) -> Table | None:
        layout = self._layout_of(delivery)
        table = None if layout is None else layout.table
        return table if table is not None and table.has_row(delivery) else None

    def row(
        self, delivery: Delivery, content: Content | None, attempts: Sequence[Attempt] = ()
    ) -> TableRow | None:
        layout, table = self._layout_of(delivery), self.table(delivery)
        if layout is None or table is None:
            return None
        values: Record | None = None
        if layout.labels.word(delivery) != HIDDEN:
            if content is None and layout.tail is not None:
                values = layout.tail(as_shown(delivery))
            else:
                values = layout.record(Stored(delivery, content or Content(), tuple(attempts)))
        return TableRow(table, delivery.id, values)

    def _layout_of(self, delivery: Delivery) -> RecordLayout | None:
        return self._layouts.get(delivery.queue) or self._layouts.get(delivery.route)

    def _of_delivery(
        self, layout: RecordLayout, delivery: Delivery, content: Content | None
    ) -> Iterator[ShownRecord]:
        retention = self._retention_of(delivery)
        if layout.key is not None:
            record = ShownRecord(
                key=layout.key(delivery),
                head=None if content is None else _head(layout, delivery, content),
                tail=_tail(layout, delivery),
                names=layout.index(delivery) if layout.index else (),
                gone_at_ms=delivery_gone_at_ms(delivery, retention),
            )
            yield _as_claimed(layout, delivery, record)
        # A delivery that never failed has no dead letter to remove.
        if layout.dead_letter is not None and (delivery.failure or delivery.failure_history):
            gone_at_ms = dead_letter_gone_at_ms(delivery, retention)
            yield _whole(layout.dead_letter, delivery, gone_at_ms=gone_at_ms)

    def _of_attempts(
        self, layout: RecordLayout, delivery: Delivery, attempts: Sequence[Attempt]
    ) -> Iterator[ShownRecord]:
        if layout.attempt is None:
            return
        retention = self._retention_of(delivery)
        for attempt in attempts:
            gone_at_ms = attempt_gone_at_ms(attempt, retention)
            yield _whole(layout.attempt, attempt, gone_at_ms=gone_at_ms)

    @staticmethod
    def _of_keys(layout: RecordLayout, keys: Sequence[Key]) -> Iterator[ShownRecord]:
        if layout.key_record is None:
            return
        for key in keys:
            shown = _whole(layout.key_record, key, gone_at_ms=key.expires_at_ms)
            yield replace(shown, owned=False, of_key=(key.source, key.key))


def _head(layout: RecordLayout, delivery: Delivery, content: Content) -> bytes:
    return encode(layout.head(Stored(delivery, content)) if layout.head else {})[:-1]


def _tail(layout: RecordLayout, delivery: Delivery) -> bytes:
    if layout.labels.word(delivery) == HIDDEN or layout.tail is None:
        return b""
    tail = encode(layout.tail(as_shown(delivery)))
    # What the head leaves open is closed here.
    return (b"," if layout.head is not None else b"") + tail[1:]


def _as_claimed(layout: RecordLayout, delivery: Delivery, record: ShownRecord) -> ShownRecord:
    if delivery.state not in CLAIMABLE_STATES:
        return record
    claimed = transitions.claim(
        delivery, holder="", now_ms=_CLAIM_AT_MS, lease_until_ms=_CLAIM_AT_MS
    ).delivery
    tail = _tail(layout, claimed)
    for time, placeholder in _CLAIM_AT.items():
        tail = tail.replace(time, placeholder)
    names = layout.index(claimed) if layout.index else ()
    return replace(record, claimed_tail=tail, claimed_names=names)


def _whole(
    kind: RecordKind[Any], value: Any, *, gone_at_ms: int | None, is_shown: bool = True
) -> ShownRecord:
    record: Record | None = kind.record(value) if is_shown else None
    return ShownRecord(
        key=kind.key(value),
        head=b"",
        tail=b"" if record is None else encode(record),
        gone_at_ms=gone_at_ms,
    )

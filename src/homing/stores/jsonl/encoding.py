"""Commits as lines of the queue and lines of the journal."""

from __future__ import annotations

from collections import defaultdict

from msgspec import json

from homing.domain.delivery import Attempt, Content, Delivery
from homing.domain.shown import Projection
from homing.stores.codec import encode
from homing.stores.jsonl.commit import Commit
from homing.stores.jsonl.default_layout import default_line
from homing.stores.jsonl.index import LogIndex
from homing.stores.jsonl.lines import JournalRecord, QueueRecord, opened, seal_last, sealed
from homing.stores.memory import reading
from homing.stores.memory.disk import NOTHING

_encode_into = json.Encoder().encode_into


def journal_line(record: JournalRecord) -> bytes:
    return sealed(b"{", encode(record))


class LineEncoder:
    """The index is as it was before the commit whose lines are encoded."""

    def __init__(self, index: LogIndex, projection: Projection | None) -> None:
        self._index = index
        self._projection = projection
        # Attempts of the commit by delivery, for the layouts that show them.
        self._ended: dict[str, dict[int, Attempt]] = {}

    def lines(self, commit: Commit, number: int) -> bytearray:
        """The lines of the queue; the commit gets their sizes."""
        if self._projection is not None:
            self._ended = defaultdict(dict)
            for row in commit.beside.attempts:
                self._ended[row.attempt.delivery_id][row.attempt.number] = row.attempt
        lines = bytearray()
        more = len(commit.lines)
        for record in commit.lines:
            more -= 1
            record.commit, record.more = number, more
            start = len(lines)
            self._add_line(lines, record, self._head(record))
            commit.sizes.append(len(lines) - start)
        return lines

    def whole_line(self, delivery_id: str, number: int) -> bytes:
        """A line with all that is known of a delivery, so that its earlier ones are not needed."""
        index, line = self._index, bytearray()
        delivery, content = index.deliveries[delivery_id], index.contents[delivery_id]
        record = QueueRecord(number, 0, delivery, payload=content.payload, results=content.results)
        record.keyed = index.keys.found.get((delivery.source, delivery.key or "")) == delivery_id
        self._add_line(line, record, index.places.head(delivery_id))
        return bytes(line)

    def _head(self, record: QueueRecord) -> bytes | None:
        """It follows from the payload: an unchanged one is in the line before."""
        index, delivery_id = self._index, record.delivery.id
        if self._projection is None or record.payload:
            return None
        if record.payload is not None and delivery_id not in index.emptied:
            return None
        return index.places.head(delivery_id)

    def _add_line(self, lines: bytearray, record: QueueRecord, head: bytes | None) -> None:
        start, shown = len(lines), None
        if self._projection is not None:
            shown = self._shown(self._projection, record, head)
        if shown is None:
            _encode_into(default_line(record.delivery, record), lines, -1)
        else:
            lines += opened(shown)
            _encode_into(record, lines, -1)
            lines += b"}"
        seal_last(lines, start)

    def _shown(
        self, projection: Projection, record: QueueRecord, head: bytes | None
    ) -> bytes | None:
        delivery = record.delivery
        attempts = self._attempts(delivery)
        try:
            found = projection.line(delivery, lambda: self._content(record), attempts, head)
        except Exception:
            if self._content(record).payload:
                raise
            # Its payload is gone, and a RecordLayout may show what was in it.
            return None
        if found is None:
            return None
        shown, record.head = found
        return shown

    def _content(self, record: QueueRecord) -> Content:
        payload, results = record.payload, record.results
        if payload is None or results is None:
            stored = self._index.contents.get(record.delivery.id, NOTHING)
            payload = stored.payload if payload is None else payload
            results = stored.results if results is None else results
        return Content(payload, results)

    def _attempts(self, delivery: Delivery) -> list[Attempt]:
        stored = reading.attempts(self._index, delivery.id)
        ended = self._ended.get(delivery.id)
        if not ended:
            return stored
        known = {attempt.number: attempt for attempt in stored} | ended
        return [known[number] for number in sorted(known)]

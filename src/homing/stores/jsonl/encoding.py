"""What the commits of a group have changed, as lines of the queue and lines of the journal."""

from __future__ import annotations

from msgspec import json

from homing.domain.delivery import Delivery
from homing.domain.shown import Projection
from homing.stores.codec import encode
from homing.stores.jsonl.default_layout import default_line
from homing.stores.jsonl.index import Changes, LogIndex
from homing.stores.jsonl.lines import JournalRecord, QueueRecord, opened, seal_last, sealed
from homing.stores.jsonl.places import emptied_place, packed_place
from homing.stores.memory import reading

_encode_into = json.Encoder().encode_into


class CommitGroup:
    """The commits that are written together, and where their lines will lie.

    The queue ends at `queue_end`, and its first `queue_synced` bytes are on the disk.
    """

    def __init__(
        self,
        index: LogIndex,
        projection: Projection | None,
        queue_end: int = 0,
        queue_synced: int = 0,
    ) -> None:
        self._index = index
        self._projection = projection
        self._queue_end = queue_end
        self._queue_synced = queue_synced
        self._heads: dict[str, bytes] = {}
        self.queue = bytearray()
        self.journal = bytearray()
        self.places: dict[str, bytes] = {}
        self.gone: list[str] = []
        self.emptied: list[str] = []
        self.keys_gone: list[tuple[str, str]] = []

    def commit(self, changes: Changes, number: int) -> bool:
        """Whether anything has changed. What cannot be encoded raises, and is left out."""
        start = len(self.queue)
        heads: dict[str, bytes] = {}
        places: dict[str, bytes] = {}
        try:
            lines = self._put_lines(changes, number, heads, places)
            beside = _beside(self._index, changes, number, lines)
            if beside is not None:
                beside.queue_bytes = self._queue_synced
                self.journal += sealed(b"{", encode(beside))
        except Exception:
            del self.queue[start:]
            raise
        self._heads.update(heads)
        self.places.update(places)
        if beside is not None:
            self._remove(beside)
        return lines > 0 or beside is not None

    def whole_line(self, delivery_id: str, number: int) -> bytes:
        """A line with all that is known of a delivery, so that its earlier ones are not needed."""
        index = self._index
        delivery, content = index.deliveries[delivery_id], index.contents[delivery_id]
        record = QueueRecord(number, 0, delivery, payload=content.payload, results=content.results)
        name = delivery.source, delivery.key or ""
        record.keyed = index.keys.found.get(name) == delivery_id
        start = len(self.queue)
        self._put_line(delivery, record, self._head(delivery_id))
        line = bytes(self.queue[start:])
        del self.queue[start:]
        return line

    def _put_lines(
        self, changes: Changes, number: int, heads: dict[str, bytes], places: dict[str, bytes]
    ) -> int:
        """How many there are; their heads and their places are added to the arguments."""
        index, queue = self._index, self.queue
        fresh, near = index.places.fresh, index.records.near
        # What was changed and not removed is there, until it is written.
        left = [found for one in changes.deliveries if (found := near.get(one)) is not None]
        more = number_of_lines = len(left)
        for delivery in left:
            more -= 1
            delivery_id = delivery.id
            record = QueueRecord(number, 0, delivery, more)
            if changes.keys and delivery.key is not None:
                record.keyed = index.keys.take_own(delivery)
            changed = changes.contents.get(delivery_id)
            before = head = has_results = payload_size = None
            if changed is not None:
                content = fresh[delivery_id]
                if changed.is_payload:
                    record.payload = content.payload
                    payload_size = len(content.payload)
                if content.results or not changed.is_new:
                    record.results = content.results
                    has_results = bool(content.results)
            if changed is None or not changed.is_new:
                before = self.places.get(delivery_id) or index.places.packed.get(delivery_id)
            if payload_size is None:
                head = self._head(delivery_id)
            start = len(queue)
            head_size = self._put_line(delivery, record, head)
            if head_size:
                heads[delivery_id] = bytes(queue[start : start + head_size])
            size = len(queue) - start - 1
            offset = self._queue_end + start
            places[delivery_id] = packed_place(
                offset, size, head_size, payload_size, has_results, before
            )
        return number_of_lines

    def _put_line(self, delivery: Delivery, record: QueueRecord, head: bytes | None) -> int:
        """The length of its head; a line without a RecordLayout has none."""
        start, found = len(self.queue), None
        if self._projection is not None:
            found = self._shown(self._projection, delivery, head)
        if found is None:
            _encode_into(default_line(delivery, record), self.queue, -1)
        else:
            shown, record.head = found
            self.queue += opened(shown)
            _encode_into(record, self.queue, -1)
            self.queue += b"}"
        seal_last(self.queue, start)
        return record.head

    def _shown(
        self, projection: Projection, delivery: Delivery, head: bytes | None
    ) -> tuple[bytes, int] | None:
        contents = self._index.contents
        attempts = reading.attempts(self._index, delivery.id)
        try:
            return projection.line(delivery, lambda: contents[delivery.id], attempts, head)
        except Exception:
            if contents[delivery.id].payload:
                raise
            # Its payload is gone, and a RecordLayout may show what was in it.
            return None

    def _head(self, delivery_id: str) -> bytes | None:
        if self._projection is None:
            return None
        return self._heads.get(delivery_id) or self._index.places.head(delivery_id)

    def _remove(self, beside: JournalRecord) -> None:
        for delivery_id in beside.gone:
            self.places.pop(delivery_id, None)
        for delivery_id in beside.emptied:
            before = self.places.get(delivery_id) or self._index.places.packed[delivery_id]
            self.places[delivery_id] = emptied_place(before)
        self.gone += beside.gone
        self.emptied += beside.emptied
        self.keys_gone += beside.keys_gone


def _beside(index: LogIndex, changes: Changes, number: int, lines: int) -> JournalRecord | None:
    record = JournalRecord(number, lines)
    keys = index.keys.found
    for name in changes.keys:
        key = keys.get(name)
        if key is None:
            record.keys_gone.append(name)
        elif not isinstance(key, str):
            record.keys.append(key)
    for place in changes.attempts:
        row = index.attempts.get(place[0], {}).get(place[1])
        if row is not None:
            record.attempts.append(row)
        else:
            record.attempts_gone.append(place)
    for kind, key_ in changes.facts:
        if (fact := index.facts.get(kind, {}).get(key_)) is not None:
            record.facts.append(fact)
        else:
            record.facts_gone.append((kind, key_))
    record.leases = [
        (delivery_id, index.deliveries[delivery_id].due_at_ms or 0)
        for delivery_id in changes.leases
    ]
    record.gone = [
        delivery_id
        for delivery_id, before in changes.deliveries.items()
        if before is not None and delivery_id not in index.records
    ]
    record.emptied = [
        delivery_id for delivery_id in changes.contents if delivery_id not in changes.deliveries
    ]
    return None if record == JournalRecord(number, lines) else record

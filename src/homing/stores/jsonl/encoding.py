"""What a commit has changed, as lines of the queue and one line of the journal."""

from __future__ import annotations

from msgspec import Raw, Struct

from homing.domain.delivery import Delivery
from homing.domain.shown import Projection
from homing.stores.codec import encode
from homing.stores.jsonl.default_shape import default_line
from homing.stores.jsonl.index import Changes, LogIndex
from homing.stores.jsonl.lines import JournalRecord, QueueRecord, sealed
from homing.stores.jsonl.places import Place
from homing.stores.memory import reading


class QueueLine(Struct, gc=False):
    """`payload_size` and `has_results` are None where the line leaves them as they were."""

    delivery_id: str
    size: int
    head: int
    payload_size: int | None = None
    has_results: bool | None = None
    # With its line feed; not where the line was read.
    data: bytes = b""

    def place_at(self, offset: int, before: Place | None) -> Place:
        size = self.size
        payload = (0, 0, 0) if before is None else before[3:6]
        results = (0, 0) if before is None else before[6:8]
        if self.payload_size is not None:
            payload = (offset, size, self.payload_size)
        if self.has_results is not None:
            results = (offset, size) if self.has_results else (0, 0)
        return Place(offset, size, self.head, *payload, *results)


class Commit(Struct):
    """One commit as bytes; `journal` is empty where nothing lies beside the queue."""

    changes: Changes
    lines: list[QueueLine]
    journal: bytes
    gone: list[str]
    emptied: list[str]


class Encoder:
    """Makes the lines of the commits of one group, which are not in the file yet."""

    def __init__(
        self, index: LogIndex, projection: Projection | None, queue_bytes: int = 0
    ) -> None:
        self._index = index
        self._projection = projection
        self._queue_bytes = queue_bytes
        self._heads: dict[str, bytes] = {}

    def commit(self, changes: Changes, number: int) -> Commit | None:
        """None if nothing has changed. What cannot be encoded raises."""
        index = self._index
        ids = [one for one in changes.deliveries if one in index.deliveries]
        heads: dict[str, bytes] = {}
        lines = [
            self._line(changes, delivery_id, number, len(ids) - nth - 1, heads)
            for nth, delivery_id in enumerate(ids)
        ]
        beside = _beside(index, changes, number, len(lines))
        if not lines and beside is None:
            return None
        self._heads.update(heads)
        if beside is None:
            return Commit(changes, lines, b"", [], [])
        beside.queue_bytes = self._queue_bytes
        return Commit(changes, lines, sealed(b"{", encode(beside)), beside.gone, beside.emptied)

    def whole_line(self, delivery_id: str, number: int) -> bytes:
        """A line with all that is known of a delivery, so that its earlier ones are not needed."""
        index = self._index
        delivery, content = index.deliveries[delivery_id], index.contents[delivery_id]
        shown, head = self._shown(delivery, self._head(delivery_id))
        kept = QueueRecord(number, head, Raw(encode(delivery)))
        kept.payload = Raw(encode(content.payload))
        kept.results = Raw(encode(content.results))
        return sealed(shown, encode(kept))

    def _line(
        self, changes: Changes, delivery_id: str, number: int, more: int, heads: dict[str, bytes]
    ) -> QueueLine:
        delivery = self._index.deliveries[delivery_id]
        changed = changes.contents.get(delivery_id)
        is_payload = changed is not None and changed.is_payload
        shown, head = self._shown(delivery, None if is_payload else self._head(delivery_id))
        heads[delivery_id] = shown[:head]
        line = QueueLine(delivery_id, 0, head)
        kept = QueueRecord(number, head, Raw(encode(delivery)), more)
        if changed is not None:
            content = self._index.contents[delivery_id]
            if is_payload:
                line.payload_size = len(content.payload)
                kept.payload = Raw(encode(content.payload))
            if content.results or not changed.is_new:
                line.has_results = bool(content.results)
                kept.results = Raw(encode(content.results))
        line.data = sealed(shown, encode(kept))
        line.size = len(line.data) - 1
        return line

    def _head(self, delivery_id: str) -> bytes:
        head = self._heads.get(delivery_id)
        return self._index.places.head(delivery_id) if head is None else head

    def _shown(self, delivery: Delivery, head: bytes | None) -> tuple[bytes, int]:
        index, found = self._index, None
        if self._projection is not None:
            found = self._projection.line(
                delivery,
                lambda: index.contents[delivery.id],
                reading.attempts(index, delivery.id),
                head,
            )
        return default_line(delivery, head) if found is None else found


def _beside(index: LogIndex, changes: Changes, number: int, lines: int) -> JournalRecord | None:
    record = JournalRecord(number, lines)
    for name in changes.keys:
        if (key := index.keys.get(name)) is not None:
            record.keys.append(key)
        else:
            record.keys_gone.append(name)
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
        if before is not None and delivery_id not in index.deliveries
    ]
    record.emptied = [
        delivery_id for delivery_id in changes.contents if delivery_id not in changes.deliveries
    ]
    return None if record == JournalRecord(number, lines) else record

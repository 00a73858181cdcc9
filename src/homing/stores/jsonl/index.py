"""The content of the files, in memory; and what a commit is about to change in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from msgspec import Struct, field
from msgspec.structs import replace

from homing.domain.delivery import Attempt, Content, Delivery, Fact, Key
from homing.ports import ForeignLine
from homing.stores.jsonl.keys import KeyIndex
from homing.stores.jsonl.lines import IndexedDelivery
from homing.stores.jsonl.places import Contents, FileDeliveries
from homing.stores.memory.disk import LedgerRow, MemoryDisk

# The fact that says how far the lines of other programs were taken.
LINES_TAKEN = "lines_taken"
QUEUE = "queue"


class ContentBefore(Struct, gc=False):
    """`is_payload`: the commit changes the payload, not only the results."""

    place: bytes | None
    fresh: Content | None
    is_payload: bool

    @property
    def is_new(self) -> bool:
        return self.place is None and self.fresh is None


# Of a delivery that was not there.
_NOTHING_BEFORE = ContentBefore(None, None, is_payload=True)


class Changes(Struct):
    """What one commit touches, each with what was there before; None: nothing."""

    deliveries: dict[str, Delivery | None] = field(default_factory=dict)
    contents: dict[str, ContentBefore] = field(default_factory=dict)
    keys: dict[tuple[str, str], Key | None] = field(default_factory=dict)
    attempts: dict[tuple[str, int], LedgerRow | None] = field(default_factory=dict)
    facts: dict[tuple[str, str], Fact | None] = field(default_factory=dict)
    leases: dict[str, Delivery] = field(default_factory=dict)


class LogIndex(MemoryDisk):
    """The memory store's data with records and contents left in the file.

    From `begin` on it notes what is changed, until `undo` or `settle`.
    """

    def __init__(
        self,
        read_line: Callable[[int, int], bytes],
        read_foreign: Callable[[int, int], bytes],
    ) -> None:
        super().__init__()
        self.places = Contents(read_line)
        self.contents = self.places
        self.records = FileDeliveries(self.places)
        self.deliveries = self.records
        self.keys: KeyIndex = KeyIndex(self.records.__getitem__)
        self.last_commit = 0
        # Lines of other programs: where each begins, and its length.
        self.foreign: list[tuple[int, int]] = []
        self._read_foreign = read_foreign
        # Removed deliveries and contents whose lines are still in the queue.
        self.gone: set[str] = set()
        self.emptied: set[str] = set()
        # Dropped keys that lines in the queue have taken.
        self.keys_gone: set[tuple[str, str]] = set()
        self.journal_commit = 0
        # Read from the journal; of those that count still, see `entries_beside`.
        self.journal_entries = 0
        self._changes: Changes | None = None

    def foreign_lines(self) -> list[ForeignLine]:
        """Of other programs, as far as none of them was taken yet."""
        taken = self.facts.get(LINES_TAKEN, {}).get(QUEUE)
        end = int((taken.value or {}).get("end") or 0) if taken is not None else 0
        return [
            ForeignLine(
                self._read_foreign(start, size),
                Fact(LINES_TAKEN, QUEUE, 0, {"end": start + size}),
            )
            for start, size in self.foreign
            if start >= end
        ]

    @property
    def entries_beside(self) -> int:
        """How many keys, attempts, facts and removals a journal has to hold."""
        attempts = sum(len(ledger) for ledger in self.attempts.values())
        facts = sum(len(kind) for kind in self.facts.values())
        removed = len(self.keys_gone) + len(self.gone) + len(self.emptied)
        return sum(1 for _ in self.keys.beside()) + attempts + facts + removed

    def begin(self) -> Changes:
        self._changes = Changes()
        self.may_be_due = False
        return self._changes

    def settle(self) -> None:
        self._changes = None

    def undo(self, changes: Changes) -> None:
        """Put back what was there before; of several commits, the last one first."""
        self.settle()
        for delivery_id, before in (changes.deliveries | changes.leases).items():
            if before is not None:
                self.put(before)
            elif delivery_id in self.deliveries:
                self.remove(delivery_id)
        for delivery_id, content in changes.contents.items():
            self.places.put_place(delivery_id, content.place)
            self.places.fresh.pop(delivery_id, None)
            if content.fresh is not None:
                self.places.fresh[delivery_id] = content.fresh
        self._undo_beside(changes)

    def _undo_beside(self, changes: Changes) -> None:
        for name, key in changes.keys.items():
            self.drop_key(*name)
            if key is not None:
                self.put_key(key)
        for (delivery_id, number), row in changes.attempts.items():
            self.drop_attempt(delivery_id, number)
            if row is not None:
                self.put_attempts(row.route, (row.attempt,))
        for kind_and_key, fact in changes.facts.items():
            self.drop_fact(*kind_and_key)
            if fact is not None:
                self.put_fact(fact)

    def put(self, delivery: Delivery) -> None:
        delivery_id, changes = delivery.id, self._changes
        if delivery_id not in self.records.near and delivery_id not in self.places.packed:
            # As most are. What is known of no delivery is not looked up again and again.
            if changes is not None:
                changes.deliveries.setdefault(delivery_id)
            self.records.near[delivery_id] = delivery
            self._add_new(delivery)
            return
        if changes is not None and delivery_id not in changes.deliveries:
            changes.deliveries[delivery_id] = self.records[delivery_id]
        super().put(delivery)

    def load(self, found: IndexedDelivery) -> None:
        """Note a delivery that was not known and is not in flight; its record stays in the file."""
        # It has the fields that the indexes look at.
        self._add_new(cast("Delivery", found))

    def _add_new(self, delivery: Delivery) -> None:
        if delivery.due_at_ms is not None:
            self.due.add(delivery)
        if delivery.parent_id is not None or delivery.holder is not None or delivery.notices_due:
            self._add_to_indexes(delivery)

    def put_claimed(
        self, before: Sequence[Delivery], after: Sequence[Delivery], holder: str, until_ms: int
    ) -> None:
        if self._changes is not None:
            for delivery in before:
                self._changes.deliveries.setdefault(delivery.id, delivery)
        super().put_claimed(before, after, holder, until_ms)

    def renew(self, delivery: Delivery, until_ms: int) -> None:
        if self._changes is not None:
            self._changes.leases.setdefault(delivery.id, delivery)
        super().put(replace(delivery, due_at_ms=until_ms))

    def remove(self, delivery_id: str) -> None:
        delivery = self.records[delivery_id]
        self.records[delivery_id] = delivery  # read once, though it is asked for again
        if self._changes is not None:
            self._changes.deliveries.setdefault(delivery_id, delivery)
        self._touch_content(delivery_id, is_payload=True)
        self.keys.keep_without(delivery)
        super().remove(delivery_id)

    def put_content(self, delivery_id: str, content: Content) -> None:
        places = self.places
        if delivery_id not in places.packed and delivery_id not in places.fresh:
            if self._changes is not None:
                self._changes.contents.setdefault(delivery_id, _NOTHING_BEFORE)
        else:
            is_payload = places[delivery_id].payload != content.payload
            self._touch_content(delivery_id, is_payload=is_payload)
        places.fresh[delivery_id] = content

    def has_content(self, delivery_id: str) -> bool:
        return not self.places.is_empty(delivery_id)

    def payload_sizes(self, delivery_ids: Iterable[str]) -> list[int]:
        return [self.places.payload_size(delivery_id) for delivery_id in delivery_ids]

    def put_key(self, key: Key) -> None:
        name = key.source, key.key
        self._touch_key(name)
        self.keys.found[name] = key

    def drop_key(self, source: str, key: str) -> None:
        self._touch_key((source, key))
        self.keys.found.pop((source, key), None)

    def put_attempts(self, route: str, attempts: Iterable[Attempt]) -> None:
        attempts = tuple(attempts)
        for attempt in attempts:
            self._touch_attempt(attempt.delivery_id, attempt.number)
        super().put_attempts(route, attempts)

    def drop_attempt(self, delivery_id: str, number: int) -> None:
        self._touch_attempt(delivery_id, number)
        super().drop_attempt(delivery_id, number)

    def put_fact(self, fact: Fact) -> None:
        self._touch_fact(fact.kind, fact.key)
        super().put_fact(fact)

    def drop_fact(self, kind: str, key: str) -> None:
        self._touch_fact(kind, key)
        super().drop_fact(kind, key)

    def _touch_content(self, delivery_id: str, *, is_payload: bool) -> None:
        changes = self._changes
        if changes is None:
            return
        touched = changes.contents.get(delivery_id)
        if touched is None:
            places = self.places
            changes.contents[delivery_id] = ContentBefore(
                places.packed.get(delivery_id), places.fresh.get(delivery_id), is_payload
            )
        elif is_payload:
            touched.is_payload = True

    def _touch_key(self, name: tuple[str, str]) -> None:
        changes = self._changes
        if changes is not None and name not in changes.keys:
            changes.keys[name] = self.keys.get(name)

    def _touch_attempt(self, delivery_id: str, number: int) -> None:
        if self._changes is not None:
            before = self.attempts.get(delivery_id, {}).get(number)
            self._changes.attempts.setdefault((delivery_id, number), before)

    def _touch_fact(self, kind: str, key: str) -> None:
        if self._changes is not None:
            before = self.facts.get(kind, {}).get(key)
            self._changes.facts.setdefault((kind, key), before)

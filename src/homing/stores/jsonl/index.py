"""The content of the files, in memory. It is changed by what the files say, and by nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from homing.domain.delivery import Delivery, Fact
from homing.ports import ForeignLine
from homing.stores.jsonl.commit import Commit
from homing.stores.jsonl.keys import KeyIndex
from homing.stores.jsonl.lines import JournalRecord
from homing.stores.jsonl.places import Contents, FileDeliveries, emptied_place, packed_place
from homing.stores.memory.disk import MemoryDisk

# The fact that says how far the lines of other programs were taken.
LINES_TAKEN = "lines_taken"
QUEUE = "queue"


class LogIndex(MemoryDisk):
    """The memory store's data with records and contents left in the file."""

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

    def beside(self) -> dict[str, Iterable[Any]]:
        """What a journal has to hold, by the fields of its records."""
        held = self.records.in_flight.values()
        return {
            "keys": self.keys.beside(),
            "keys_gone": (name for name in self.keys_gone if name not in self.keys),
            "attempts": (row for ledger in self.attempts.values() for row in ledger.values()),
            "facts": (fact for kind in self.facts.values() for fact in kind.values()),
            "leases": ((one.id, one.due_at_ms) for one in held if one.due_at_ms is not None),
            "gone": self.gone,
            "emptied": self.emptied,
        }

    def entries_beside(self) -> int:
        return sum(1 for records in self.beside().values() for _ in records)

    def apply(self, commit: Commit, number: int) -> None:
        """What was just logged."""
        if commit.beside.entries:
            self.apply_beside(commit.beside)
        claim, packed, start = commit.claim, self.places.packed, commit.start
        if claim is not None:
            after = [record.delivery for record in commit.lines]
            self.put_claimed(commit.taken, after, claim.worker, claim.lease_until_ms)
        for record, size in zip(commit.lines, commit.sizes, strict=True):
            delivery, payload, results = record.delivery, record.payload, record.results
            place = packed_place(
                start,
                size - 1,
                record.head,
                None if payload is None else len(payload),
                None if results is None else bool(results),
                packed.get(delivery.id),
            )
            if claim is None:
                self.put_line(delivery, place, keyed=record.keyed)
            else:
                packed[delivery.id] = place
            start += size
        self.last_commit = self.journal_commit = number

    def put_line(self, delivery: Delivery, place: bytes, *, keyed: bool) -> None:
        """A delivery whose newest line lies there; of one that is new and not in flight, the
        fields that the indexes look at are enough."""
        delivery_id, packed = delivery.id, self.places.packed
        if delivery_id in packed:
            self.put(delivery)
        else:
            self.gone.discard(delivery_id)
            self.records[delivery_id] = delivery
            if delivery.due_at_ms is not None:
                self.due.add(delivery)
            self._add_to_indexes(delivery)
        packed[delivery_id] = place
        if delivery_id in self.emptied and not self.places.is_empty(delivery_id):
            self.emptied.remove(delivery_id)
        if keyed:
            self.keys.found[delivery.source, delivery.key or ""] = delivery_id

    def apply_beside(self, record: JournalRecord) -> None:
        """What is removed goes first: the same commit may put it again."""
        self._drop_beside(record)
        for key in record.keys:
            self.put_key(key)
        for row in record.attempts:
            self.put_attempts(row.route, (row.attempt,))
        self.note(record.facts)
        for delivery_id, until_ms in record.leases:
            if delivery_id in self.records.in_flight:
                self.renew(delivery_id, until_ms)
        self.journal_entries += record.entries

    def _drop_beside(self, record: JournalRecord) -> None:
        packed = self.places.packed
        for name in record.keys_gone:
            if name in self.keys:
                self.drop_key(*name)
                self.keys_gone.add(name)
        for place in record.attempts_gone:
            self.drop_attempt(*place)
        for kind_and_key in record.facts_gone:
            self.drop_fact(*kind_and_key)
        for delivery_id in record.gone:
            if delivery_id in packed:
                self.remove(delivery_id)
                self.gone.add(delivery_id)
        for delivery_id in record.emptied:
            if delivery_id in packed:
                packed[delivery_id] = emptied_place(packed[delivery_id])
                self.emptied.add(delivery_id)

    def remove(self, delivery_id: str) -> None:
        self.keys.keep_without(self.records[delivery_id])
        super().remove(delivery_id)

    def has_content(self, delivery_id: str) -> bool:
        return not self.places.is_empty(delivery_id)

    def payload_sizes(self, delivery_ids: Iterable[str]) -> list[int]:
        return [self.places.payload_size(delivery_id) for delivery_id in delivery_ids]

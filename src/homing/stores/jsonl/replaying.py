"""Brings the index up to the files: all of them at the start, and later what others appended.

Both files are ordered by the numbers of their commits. A commit writes its line of the journal
first and its lines of the queue last, so it is complete once its last line is in the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec import Struct

from homing.domain.errors import StoreCorrupt
from homing.stores.jsonl.files import AppendFile
from homing.stores.jsonl.index import LogIndex
from homing.stores.jsonl.lines import (
    IndexedRecord,
    JournalRecord,
    indexed_record,
    is_foreign,
    is_whole,
    journal_record,
    kept_delivery,
)
from homing.stores.jsonl.places import emptied_place, packed_place


class Torn(Struct):
    """The end of a file that no finished commit has written."""

    file: AppendFile
    start: int
    # Whole lines of an unfinished commit are no damage.
    is_damaged: bool


# Tries to correct the line of a file at this place; whether it is whole now.
Mend: TypeAlias = Callable[[AppendFile, int], bool]


class Replay:
    """One pass over what is new in both files."""

    def __init__(self, index: LogIndex, queue: AppendFile, journal: AppendFile, mend: Mend) -> None:
        self._index = index
        self._queue = queue
        self._journal = journal
        self._mend = mend
        self._frames = _WholeLines(journal, mend)
        self._known = index.journal_commit
        self._next: tuple[int, JournalRecord, int] | None = None
        # What the newest line of the journal says; 0 where none does.
        self._queue_bytes = 0
        self.torn: list[Torn] = []

    def run(self) -> None:
        self._index.settle()
        self._pull()
        self._read_queue()
        self._read_journal(None)
        self._demand_whole_queue()
        if self._frames.torn_at is not None and not any(t.file is self._journal for t in self.torn):
            self.torn.append(Torn(self._journal, self._frames.torn_at, is_damaged=True))

    def _read_queue(self) -> None:
        lines = _WholeLines(self._queue, self._mend, takes_foreign=True)
        commit: list[tuple[int, bytes, IndexedRecord]] = []
        begun_at = 0
        for offset, line in lines:
            if lines.is_foreign:
                self._index.foreign.append((offset, len(line)))
                self._queue.end = offset + len(line) + 1
                continue
            record = indexed_record(line)
            if not commit:
                begun_at = offset
            elif record.commit != commit[0][2].commit:
                raise _corrupt(self._queue, begun_at, "lines of its commit are missing")
            commit.append((offset, line, record))
            if record.more == 0:
                self._read_journal(record.commit)
                for each in commit:
                    self._put(*each)
                commit = []
                self._queue.end = offset + len(line) + 1
        if commit:
            self.torn.append(Torn(self._queue, begun_at, is_damaged=lines.torn_at is not None))
        elif lines.torn_at is not None:
            self.torn.append(Torn(self._queue, lines.torn_at, is_damaged=True))

    def _put(self, offset: int, line: bytes, record: IndexedRecord) -> None:
        index, found = self._index, record.delivery
        delivery_id = found.id
        packed = index.places.packed
        before = packed.get(delivery_id)
        if before is None and found.state != "in_flight":
            index.load(found)
        else:
            index.put(kept_delivery(line))
        payload, results = record.payload, record.results
        packed[delivery_id] = packed_place(
            offset,
            len(line),
            record.head,
            _decoded_size(memoryview(payload)) if payload else None,
            bytes(results) != b"{}" if results else None,
            before,
        )
        if before is not None:
            index.records.written((delivery_id,))
        if record.keyed:
            index.keys.found[found.source, found.key or ""] = delivery_id
        index.last_commit = record.commit

    def _read_journal(self, up_to: int | None) -> None:
        """Apply what belongs to the commits up to this one; with None, what is left."""
        while self._next is not None:
            offset, record, size = self._next
            if up_to is not None and record.commit > up_to:
                return
            if record.lines and up_to is None:
                # Its lines never came into the queue: neither this commit nor a later one of the
                # same group was answered. Or they were damaged there.
                is_damaged = any(torn.is_damaged for torn in self.torn)
                self.torn.append(Torn(self._journal, offset, is_damaged))
                return
            # A journal that was compacted begins with what it has said before.
            if record.commit > self._known:
                self._apply(record)
            self._journal.end = offset + size + 1
            self._pull()

    def _demand_whole_queue(self) -> None:
        """Nothing is cut off a journal whose queue was shortened or taken away."""
        while self._next is not None:
            self._pull()
        size = self._queue.size
        if size < self._queue_bytes:
            name, folder = self._queue.path.name, self._journal.path.parent.name
            raise StoreCorrupt(
                f"{name}: it has {size} bytes of at least {self._queue_bytes}: it was shortened or"
                f" replaced; put it back, or remove {folder} as well to begin without its records"
            )

    def _pull(self) -> None:
        found = next(self._frames, None)
        if found is None:
            self._next = None
            return
        record = journal_record(found[1])
        self._next = found[0], record, len(found[1])
        self._queue_bytes = record.queue_bytes or self._queue_bytes

    def _apply(self, record: JournalRecord) -> None:
        index = self._index
        for key in record.keys:
            index.put_key(key)
        for name in record.keys_gone:
            if name in index.keys:
                index.drop_key(*name)
                index.keys_gone.add(name)
        for route, attempt in record.attempts:
            index.put_attempts(route, (attempt,))
        for place in record.attempts_gone:
            index.drop_attempt(*place)
        for fact in record.facts:
            index.put_fact(fact)
        for kind_and_key in record.facts_gone:
            index.drop_fact(*kind_and_key)
        self._apply_to_deliveries(record)
        index.journal_entries += record.entries
        index.journal_commit = record.commit
        index.last_commit = max(index.last_commit, record.commit)

    def _apply_to_deliveries(self, record: JournalRecord) -> None:
        index = self._index
        for delivery_id, until_ms in record.leases:
            if (leased := index.deliveries.get(delivery_id)) is not None:
                index.renew(leased, until_ms)
        for delivery_id in record.gone:
            if delivery_id in index.deliveries:
                index.remove(delivery_id)
                index.gone.add(delivery_id)
        for delivery_id in record.emptied:
            if delivery_id in index.deliveries:
                index.places.put_place(delivery_id, emptied_place(index.places.packed[delivery_id]))
                index.emptied.add(delivery_id)


class _WholeLines(Iterator[tuple[int, bytes]]):
    """The lines of a file that are whole; `torn_at` is where its unreadable end begins.

    Damage that cannot be mended and is followed by a whole line is not the end of the file, and
    raises.
    """

    def __init__(self, file: AppendFile, mend: Mend, *, takes_foreign: bool = False) -> None:
        self._file = file
        self._mend = mend
        self._takes_foreign = takes_foreign
        # Of the last line: another program wrote it.
        self.is_foreign = False
        self._lines = file.lines(file.end)
        self.torn_at: int | None = None

    def __next__(self) -> tuple[int, bytes]:
        while (found := next(self._lines, None)) is not None:
            offset, line, is_complete = found
            is_ours = is_complete and is_whole(line)
            self.is_foreign = (
                not is_ours and is_complete and self._takes_foreign and is_foreign(line)
            )
            if is_ours or self.is_foreign:
                if self.torn_at is not None:
                    raise _corrupt(self._file, self.torn_at, "it was changed after it was written")
                return offset, line
            if self.torn_at is None:
                if self._mend(self._file, offset):
                    self._lines = self._file.lines(offset)
                else:
                    self.torn_at = offset
        raise StopIteration


def _corrupt(file: AppendFile, offset: int, why: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"{file.path.name}: the line at byte {offset} is damaged ({why});"
        " restore it from a backup, or take it out of the file to go on without it"
    )


def _decoded_size(text: memoryview) -> int:
    """How many bytes a JSON string of base64 stands for."""
    return (len(text) - 2) // 4 * 3 - bytes(text[-3:-1]).count(b"=")

"""Brings the index up to the files: all of them at the start, and later what others appended.

Both files are ordered by the numbers of their commits. A commit writes its line of the journal
first and its lines of the queue last, so it is complete once its last line is in the queue.
"""

from __future__ import annotations

from typing import cast

from msgspec import Struct

from homing.domain.delivery import Delivery
from homing.domain.errors import StoreCorrupt
from homing.stores.jsonl.damaged_deliveries import is_held_for_damage
from homing.stores.jsonl.files import AppendFile
from homing.stores.jsonl.index import LogIndex
from homing.stores.jsonl.lines import (
    IndexedRecord,
    JournalRecord,
    indexed_record,
    journal_record,
    kept_delivery,
)
from homing.stores.jsonl.places import packed_place
from homing.stores.jsonl.scanning import Mend, Scan


class Torn(Struct):
    """The end of a file that no finished commit has written."""

    file: AppendFile
    start: int
    # Whole lines of an unfinished commit are no damage.
    is_damaged: bool


class Replay:
    """One pass over what is new in both files.

    `suspects` are deliveries of which a line is missing or may be.
    """

    def __init__(self, index: LogIndex, queue: AppendFile, journal: AppendFile, mend: Mend) -> None:
        self._index = index
        self._queue = queue
        self._journal = journal
        self._lines = Scan(queue, mend, takes_foreign=True)
        self._frames = Scan(journal, mend)
        self._known = index.journal_commit
        self._next: tuple[int, JournalRecord, int] | None = None
        # What the newest line of the journal says; 0 where none does.
        self._queue_bytes = 0
        self.torn: list[Torn] = []
        self.suspects: set[str] = set()

    def run(self) -> None:
        self._pull()
        self._read_queue()
        self._read_journal(None)
        self._demand_whole_queue()
        self._tell_damage()
        if any(torn.file is self._journal for torn in self.torn):
            return
        if self._frames.torn_at is None:
            self._journal.end = self._journal.size
        else:
            self.torn.append(Torn(self._journal, self._frames.torn_at, is_damaged=True))

    @property
    def damaged(self) -> list[tuple[AppendFile, int, int]]:
        """Where each damage begins and ends."""
        queue = [(self._queue, *place) for place in self._lines.damaged]
        return queue + [(self._journal, *place) for place in self._frames.damaged]

    def _read_queue(self) -> None:
        lines = self._lines
        # What was read of a commit, without its last line.
        commit: list[tuple[int, bytes, IndexedRecord]] = []
        end = self._queue.end
        for offset, line in lines.lines:
            end = offset + len(line) + 1
            if lines.is_foreign:
                self._index.foreign.append((offset, len(line)))
                self._queue.end = end
                continue
            record = indexed_record(line)
            newest = commit[0][2].commit if commit else self._index.last_commit
            if record.commit < newest:
                # It was moved or copied here: what it says was true before the lines above it.
                lines.note_damage(offset, end)
                continue
            if commit and record.commit != commit[0][2].commit:
                if not lines.has_gap:
                    raise StoreCorrupt(
                        f"{self._queue.path.name}: lines of the commit at byte {commit[0][0]} are"
                        " missing; restore them from a backup, or remove its other lines to"
                        " continue without it"
                    )
                self._put_all(commit)
            if record.more:
                commit.append((offset, line, record))
                continue
            self._read_journal(record.commit)
            if commit:
                self._put_all(commit)
            self._put(offset, line, record)
            self._queue.end = end
            lines.has_gap = False
        self._end_queue(commit)

    def _end_queue(self, commit: list[tuple[int, bytes, IndexedRecord]]) -> None:
        """After its last line: `commit` may have none that ends it."""
        lines = self._lines
        if commit and lines.has_gap and lines.torn_at is None:
            self._put_all(commit)
        if commit:
            is_damaged = lines.torn_at is not None
            self.torn.append(Torn(self._queue, commit[0][0], is_damaged))
        elif lines.torn_at is not None:
            self.torn.append(Torn(self._queue, lines.torn_at, is_damaged=True))
        else:
            # With what is damaged or blank after the last line.
            self._queue.end = self._queue.size

    def _put_all(self, commit: list[tuple[int, bytes, IndexedRecord]]) -> None:
        self._read_journal(commit[0][2].commit)
        for each in commit:
            self._put(*each)
        commit.clear()

    def _put(self, offset: int, line: bytes, record: IndexedRecord) -> None:
        index, found = self._index, record.delivery
        before = index.places.packed.get(found.id)
        payload, results = record.payload, record.results
        if before is None and not payload:
            self._miss_first_line(record)
        # It has the fields that the indexes look at, and takes half the time to decode.
        delivery = cast("Delivery", found)
        if before is not None or found.state == "in_flight":
            delivery = kept_delivery(line).delivery
            self._suspect(delivery, None if before is None else record.versions)
        place = packed_place(
            offset,
            len(line),
            record.head,
            _decoded_size(memoryview(payload)) if payload else None,
            bytes(results) != b"{}" if results else None,
            before,
        )
        index.put_line(delivery, place, keyed=record.keyed)
        index.last_commit = record.commit

    def _suspect(self, delivery: Delivery, versions: int | None) -> None:
        """After damage, a line of it is missing if its version is not the next one."""
        if self._lines.damaged and versions is not None:
            known = self._index.records[delivery.id].version
            if delivery.version > known + versions:
                self.suspects.add(delivery.id)
        if self.suspects and is_held_for_damage(delivery):
            # It was held when that was met first; a person may have decided since.
            self.suspects.discard(delivery.id)

    def _miss_first_line(self, record: IndexedRecord) -> None:
        """Its payload is lost, and its key was taken by the line that is missing."""
        found = record.delivery
        self.suspects.add(found.id)
        if found.key is not None and found.parent_id is None:
            self._index.keys.found.setdefault((found.source, found.key), found.id)

    def _read_journal(self, up_to: int | None) -> None:
        """Apply what belongs to the commits up to this one; with None, what is left."""
        while self._next is not None:
            offset, record, size = self._next
            if up_to is not None and record.commit > up_to:
                return
            if record.lines and up_to is None and not self._lines.has_gap:
                # Its lines never came into the queue: neither this commit nor a later one of the
                # same group was answered.
                is_damaged = any(torn.is_damaged for torn in self.torn)
                self.torn.append(Torn(self._journal, offset, is_damaged))
                return
            # A journal that was compacted begins with what it has said before.
            if record.commit > self._known:
                self._index.apply_beside(record)
                self._index.journal_commit = record.commit
                self._index.last_commit = max(self._index.last_commit, record.commit)
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

    def _tell_damage(self) -> None:
        """What was on the disk once was written to its end: it is damaged, not cut off."""
        for torn in [one for one in self.torn if one.file is self._queue]:
            if torn.start < self._queue_bytes:
                self.torn.remove(torn)
                self._lines.damaged.append((torn.start, self._queue.size))
                self._queue.end = self._queue.size

    def _pull(self) -> None:
        found = next(self._frames.lines, None)
        if found is None:
            self._next = None
            return
        record = journal_record(found[1])
        self._next = found[0], record, len(found[1])
        self._queue_bytes = record.queue_bytes or self._queue_bytes


def _decoded_size(text: memoryview) -> int:
    """How many bytes a JSON string of base64 encodes."""
    if len(text) == len('""'):
        return 0
    return (len(text) - 2) // 4 * 3 - (text[-2] == ord("=")) - (text[-3] == ord("="))

"""The files of a store and the index over them. Used by one thread, under the lock of the queue."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from homing.domain.errors import StoreCorrupt, StoreError, StoreOutcomeUnknown
from homing.domain.shown import Projection
from homing.stores.codec import encode
from homing.stores.jsonl.compacting import compact_journal, compact_queue
from homing.stores.jsonl.damage import Damage
from homing.stores.jsonl.damaged_deliveries import concerned, hold, named_in
from homing.stores.jsonl.encoding import CommitGroup
from homing.stores.jsonl.files import AppendFile
from homing.stores.jsonl.index import Changes, LogIndex
from homing.stores.jsonl.lines import JournalRecord, blank, is_whole, sealed
from homing.stores.jsonl.locking import QueueLock
from homing.stores.jsonl.replaying import Replay
from homing.stores.os_errors import store_error
from homing.stores.syncing import sync_folder

log = logging.getLogger("homing.stores")

FOLDER = ".d"
JOURNAL = "journal.jsonl"
# A journal above this size is compacted, unless most of what it says still counts.
JOURNAL_BYTES = 8 * 1024 * 1024
_OWNER_ONLY = 0o700
# An alert names at most this many ids.
_NAMED = 20


def folder_of(queue: Path) -> Path:
    """Where all that is not a delivery lies."""
    return queue.with_name(queue.name + FOLDER)


class DamagedLine(StoreCorrupt):
    """A line that was whole when it was read first."""


class Log:
    def __init__(self, path: Path, projection: Projection | None) -> None:
        self.path = path
        self._folder = folder_of(path)
        self._projection = projection
        if not self._folder.exists():
            self._folder.mkdir(mode=_OWNER_ONLY, exist_ok=True)
            sync_folder(self._folder.parent)
        self._lock = QueueLock(path)
        self._is_stale = True
        # So much of the queue the journal knows to be on the disk.
        self._stated = 0
        self._compact_journal_at = JOURNAL_BYTES
        self._damage = Damage(self._folder)
        self._lacks_journal = not (self._folder / JOURNAL).exists()
        self._open_files()

    def close(self) -> None:
        self._state_size()
        self._queue.close()
        self._journal.close()
        self._lock.close()

    def _state_size(self) -> None:
        """Write the size of the queue to the journal: most commits write no line there."""
        if self._queue.synced <= self._stated:
            return
        with contextlib.suppress(StoreError, OSError), self.locked(time.monotonic()):
            self.index.last_commit += 1
            record = JournalRecord(self.index.last_commit, queue_bytes=self._queue.synced)
            group = self.group()
            group.journal += sealed(b"{", encode(record))
            self.write(group, durable=False)

    @property
    def is_current(self) -> bool:
        """Whether nothing was appended since; then reads need no lock."""
        try:
            return not self._is_stale and self._queue.is_current and self._journal.is_current
        except OSError:
            return False

    @contextmanager
    def locked(self, until_s: float) -> Iterator[None]:
        """The index is up to the files, and stays so."""
        with self._lock.held(until_s):
            self._refresh()
            yield
            if self._journal.end > self._compact_journal_at:
                self._compact_journal()

    def group(self) -> CommitGroup:
        return CommitGroup(self.index, self._projection, self._queue.end, self._queue.synced)

    def forget(self) -> None:
        """The index may not be what the files say: read them anew before the next use."""
        self._is_stale = True

    def write(self, group: CommitGroup, *, durable: bool) -> None:
        """All of its commits, or none: then it raises, and the index still has them."""
        if group.journal:
            self._stated = self._queue.synced
        try:
            # Most commits have nothing beside the queue, and need one sync.
            if group.journal:
                self._journal.append(group.journal)
                if durable:
                    self._journal.sync()
            if group.queue:
                self._queue.append(group.queue)
                if durable:
                    self._queue.sync()
        except OSError as error:
            raise self._backed_out(error) from error
        self._journal.end += len(group.journal)
        self._queue.end += len(group.queue)
        if group.queue and durable:
            self._queue.synced = self._queue.end
        index = self.index
        index.places.written(group.places)
        index.records.written(group.places)
        index.gone.update(group.gone)
        index.emptied.update(group.emptied)
        index.keys_gone.update(group.keys_gone)
        index.journal_commit = index.last_commit
        if self._queue.size != self._queue.end:
            # A program that does not take the lock has appended.
            self._is_stale = True

    def _backed_out(self, error: OSError) -> StoreError:
        """Remove what was written. If that fails too, it is unknown what is stored."""
        refused = store_error(error, self.path)
        try:
            self._queue.cut(self._queue.end)
            self._journal.cut(self._journal.end)
        except OSError:
            self._is_stale = True
            return StoreOutcomeUnknown(str(refused))
        return refused

    def _open_files(self) -> None:
        self._queue = AppendFile(self.path)
        self._journal = AppendFile(self._folder / JOURNAL)
        self.index = LogIndex(self._read_line, self._queue.read)

    def compact(self) -> tuple[int, int]:
        """Leave only the newest line of each delivery; the bytes before and after it."""
        before = self._queue.size
        compact_queue(self.index, self.group(), self.path, self._folder / JOURNAL)
        self._is_stale = True
        self._refresh()
        return before, self._queue.size

    def _refresh(self) -> None:
        if self._is_stale or self._queue.is_replaced:
            self._queue.close()
            self._journal.close()
            self._open_files()
        elif self.is_current:
            return
        self._is_stale = True
        replays: list[Replay] = []
        if self._journal.is_replaced:
            # The last lines of the old file may be new; then the new one is read for what follows.
            replays.append(self._replay())
            self._journal.close()
            self._journal = AppendFile(self._folder / JOURNAL)
        is_first = self._journal.end == 0
        replays.append(self._replay())
        for replay in replays:
            self._set_aside(replay)
        if self._lacks_journal and self.index.records:
            self._damage.tell(
                f"{JOURNAL} is missing beside {self.path.name}: attempts, pauses and keys that were"
                " in it are forgotten"
            )
        self._lacks_journal = False
        if is_first and self.index.journal_entries <= 2 * self.index.entries_beside:
            self._compact_journal_at = max(JOURNAL_BYTES, 2 * self._journal.end)
        self._is_stale = False
        if self._damage.facts:
            self._note_facts()

    def _replay(self) -> Replay:
        replay = Replay(self.index, self._queue, self._journal, self._damage.mend)
        replay.run()
        for torn in replay.torn:
            if torn.is_damaged or torn.file is self._queue:
                self._damage.keep_end(torn.file, torn.start)
            torn.file.cut(torn.start)
            torn.file.end = torn.file.synced = torn.start
        return replay

    def _set_aside(self, replay: Replay) -> None:
        """Damaged bytes are copied first, then what they were about is held, and last they are
        overwritten: after a crash in between, they are found again."""
        damaged = [one for one in replay.damaged if one[0] in (self._queue, self._journal)]
        if not damaged and not replay.suspects:
            return
        now_ms = time.time_ns() // 1_000_000
        changes = self.index.begin()
        held = hold(self.index, replay.suspects, now_ms)
        if held and not damaged:
            self._damage.tell(f"{self.path.name}: lines are missing; {_named(held)}")
        for file, start, end in damaged:
            data = file.read(start, end - start)
            if file is self._queue:
                ids = concerned(self.index, data, start)
            else:
                ids = named_in(self.index, data)
            held += hold(self.index, ids, now_ms)
            self._damage.keep_damaged(file, start, end, _named(held))
            held = []
        self.index.note(self._damage.facts)
        self._commit(changes)
        self._damage.facts.clear()
        for file, start, end in damaged:
            file.overwrite(start, blank(end - start))

    def _compact_journal(self) -> None:
        """Most of the journal is heartbeats and leases that later ones have replaced."""
        try:
            compact_journal(self.index, self._folder / JOURNAL)
        except OSError as error:
            log.warning("journal_not_compacted detail=%s", error.strerror)
        self._journal.close()
        self._journal = AppendFile(self._folder / JOURNAL)
        self._journal.end = self._journal.size
        self._compact_journal_at = max(JOURNAL_BYTES, 2 * self._journal.end)

    def _read_line(self, start: int, size: int) -> bytes:
        """A line of the queue, which was whole when it was read first."""
        line = self._queue.read(start, size)
        if is_whole(line):
            return line
        if self._damage.mend(self._queue, start):
            self._is_stale = True  # so that the next request stores the fact
            return self._queue.read(start, size)
        # Then the next request reads the files anew, and finds what is damaged.
        self._is_stale = True
        raise DamagedLine(f"{self.path.name}: the line at byte {start} is damaged")

    def _note_facts(self) -> None:
        changes = self.index.begin()
        self.index.note(self._damage.facts)
        self._commit(changes)
        self._damage.facts.clear()

    def _commit(self, changes: Changes) -> None:
        group = self.group()
        if self.add_commit(group, changes):
            self.write(group, durable=True)
        self.index.settle()

    def add_commit(self, group: CommitGroup, changes: Changes) -> bool:
        """Whether anything has changed. Only then a number is used up: the next one of another
        process follows the last number in the files, and would be taken for known."""
        number = self.index.last_commit + 1
        has_changed = group.commit(changes, number)
        if has_changed:
            self.index.last_commit = number
        return has_changed


def _named(held: list[str]) -> str:
    if not held:
        return "nothing is held because of it"
    shown = ", ".join(held[:_NAMED])
    more = f" and {len(held) - _NAMED} more" if len(held) > _NAMED else ""
    return f"held for a person, because they may have been sent: {shown}{more}"

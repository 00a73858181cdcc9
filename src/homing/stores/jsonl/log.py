"""The files of a store and the index over them. Used by one thread, under the lock of the queue."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from homing.domain.delivery import Delivery
from homing.domain.errors import StoreCorrupt, StoreError, StoreOutcomeUnknown
from homing.domain.shown import Projection
from homing.ports import Put
from homing.stores.jsonl.compacting import compact_journal, compact_queue
from homing.stores.jsonl.damage import Damage
from homing.stores.jsonl.damaged_deliveries import concerned, named_in, writes_to_hold
from homing.stores.jsonl.encoding import LineEncoder, journal_line
from homing.stores.jsonl.files import AppendFile
from homing.stores.jsonl.index import LogIndex
from homing.stores.jsonl.lines import JournalRecord, blank, is_whole
from homing.stores.jsonl.locking import QueueLock
from homing.stores.jsonl.replaying import Replay
from homing.stores.jsonl.transaction import Transaction
from homing.stores.syncing import sync_folder

T = TypeVar("T")

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
        # Set by a commit after which something may be due; its reader takes it back.
        self.may_be_due = False
        self._compact_journal_at = JOURNAL_BYTES
        self._damage = Damage(self._folder)
        self._lacks_journal = not (self._folder / JOURNAL).exists()
        self._open_files()

    def close(self) -> None:
        if self._queue.synced:
            with contextlib.suppress(StoreError, OSError), self.locked(time.monotonic()):
                # Most commits write no line to the journal, which says how long the queue was.
                self.index.last_commit += 1
                record = JournalRecord(self.index.last_commit, queue_bytes=self._queue.synced)
                self._journal.append(journal_line(record))
        self._queue.close()
        self._journal.close()
        self._lock.close()

    @property
    def is_current(self) -> bool:
        """Whether nothing was appended since."""
        try:
            return not self._is_stale and self._queue.is_current and self._journal.is_current
        except OSError:
            return False

    def read(self, work: Callable[[LogIndex], T], until_s: float) -> T:
        if self.is_current:
            return work(self.index)
        with self.locked(until_s):
            return work(self.index)

    @contextmanager
    def locked(self, until_s: float) -> Iterator[None]:
        """The index is up to the files, and stays so."""
        with self._lock.held(until_s):
            self._refresh()
            yield
            if self._journal.end > self._compact_journal_at:
                self._compact_journal()

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[Transaction]:
        """All of it is written when this ends, or nothing: then it raises."""
        found = Transaction(
            self.index, self._queue, self._journal, self._projection, durable=durable
        )
        try:
            yield found
            found.finish()
        except Exception as error:
            is_removed = found.back_out()
            self._is_stale |= found.is_applied or not is_removed
            if not is_removed:
                raise StoreOutcomeUnknown(f"{self.path.name}: {error}") from error
            raise
        self.may_be_due |= found.wakes
        if self._queue.size != self._queue.end:
            # A program that does not take the lock has appended.
            self._is_stale = True

    def _open_files(self) -> None:
        self._queue = AppendFile(self.path)
        self._journal = AppendFile(self._folder / JOURNAL)
        self.index = LogIndex(self._read_line, self._queue.read)

    def compact(self) -> tuple[int, int]:
        """Leave only the newest line of each delivery; the bytes before and after it."""
        before = self._queue.size
        self._is_stale = True
        encoder = LineEncoder(self.index, self._projection)
        compact_queue(self.index, encoder, self.path, self._folder / JOURNAL)
        self._refresh()
        return before, self._queue.size

    def _refresh(self) -> None:
        if self._is_stale or self._queue.is_replaced:
            self._queue.close()
            self._journal.close()
            self._open_files()
        elif self.is_current and not self._damage.facts:
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
        if is_first and self.index.journal_entries <= 2 * self.index.entries_beside():
            self._compact_journal_at = max(JOURNAL_BYTES, 2 * self._journal.end)
        self._is_stale = self._queue.size != self._queue.end
        if self._damage.facts:
            with self.transaction() as transaction:
                transaction.put([Put(facts=self._damage.facts)])
            self._damage.facts.clear()

    def _replay(self) -> Replay:
        replay = Replay(self.index, self._queue, self._journal, self._damage.mend)
        replay.run()
        for torn in replay.torn:
            if torn.is_damaged or torn.file is self._queue:
                self._damage.keep_end(torn.file, torn.start)
            torn.file.cut(torn.start)
        return replay

    def _set_aside(self, replay: Replay) -> None:
        """Damaged bytes are copied first, then what they were about is held, and last they are
        overwritten: after a crash in between, they are found again."""
        damaged = [one for one in replay.damaged if one[0] in (self._queue, self._journal)]
        if not damaged and not replay.suspects:
            return
        with self.transaction() as transaction:
            held = _hold(transaction, replay.suspects)
            if held and not damaged:
                self._damage.tell(f"{self.path.name}: lines are missing; {_named(held)}")
            for file, start, end in damaged:
                data, index = file.read(start, end - start), transaction.index
                if file is self._queue:
                    held += _hold(transaction, *concerned(index, data, start))
                else:
                    held += _hold(transaction, named_in(index, data))
                self._damage.keep_damaged(file, start, end, _named(held))
                held = []
            transaction.put([Put(facts=self._damage.facts)])
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
        # The next request reads the files anew: it stores the fact, or finds what is damaged.
        self._is_stale = True
        if self._damage.mend(self._queue, start):
            return self._queue.read(start, size)
        raise DamagedLine(f"{self.path.name}: the line at byte {start} is damaged")


def _hold(
    transaction: Transaction, ids: set[str], lost: dict[str, Delivery] | None = None
) -> list[str]:
    """Those of them that are held now."""
    now_ms = time.time_ns() // 1_000_000
    writes = writes_to_hold(transaction.index, ids, lost or {}, now_ms)
    transaction.put([Put(writes)])
    return [write.delivery.id for write in writes if write.over is not None]


def _named(held: list[str]) -> str:
    if not held:
        return "nothing is held because of it"
    shown = ", ".join(held[:_NAMED])
    more = f" and {len(held) - _NAMED} more" if len(held) > _NAMED else ""
    return f"held for a person, because they may have been sent: {shown}{more}"

"""Writes the files anew with only what still counts, under the lock of the queue.

The journal may be compacted at any time. The queue is its readers' history: only a person may
shorten it. A crash in between leaves whole files: the old one or the new one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

from homing.domain.delivery import Fact
from homing.stores.jsonl.encoding import LineEncoder, journal_line
from homing.stores.jsonl.index import LINES_TAKEN, QUEUE, LogIndex
from homing.stores.jsonl.lines import JournalRecord
from homing.stores.own_files import open_own_file
from homing.stores.syncing import sync_folder

T = TypeVar("T")

# Records in one line of the journal, and lines that are written at once.
_RECORDS = 500
_LINES = 1000


def compact_journal(index: LogIndex, journal: Path) -> None:
    """All that it says, as of the last commit."""
    _replace(journal, _journal_lines(index))


def compact_queue(index: LogIndex, encoder: LineEncoder, queue: Path, journal: Path) -> None:
    """The newest line of each delivery, and the lines of other programs that were not taken."""
    foreign = [line.data + b"\n" for line in index.foreign_lines()]
    new = queue.with_name(queue.name + ".new")
    lines = (encoder.whole_line(one, index.last_commit) for one in index.deliveries)
    size = _write(new, lines)
    _append(new, foreign)
    # The journal first: it still names what was removed, so it fits the old queue as well. Lines
    # of other programs would be taken again from the old queue, and are known then.
    index.put_fact(Fact(LINES_TAKEN, QUEUE, 0, {"end": size}))
    compact_journal(index, journal)
    new.rename(queue)
    sync_folder(queue.parent)


def _journal_lines(index: LogIndex) -> Iterator[bytes]:
    for name, records in index.beside().items():
        for some in _batches(records, _RECORDS):
            record = JournalRecord(index.last_commit)
            setattr(record, name, some)
            yield journal_line(record)


def _replace(path: Path, lines: Iterable[bytes]) -> None:
    new = path.with_name(path.name + ".new")
    _write(new, lines)
    new.rename(path)
    sync_folder(path.parent)


def _write(path: Path, lines: Iterable[bytes]) -> int:
    """A new file, on the disk when this returns; its size."""
    os.close(open_own_file(path, os.O_WRONLY | os.O_TRUNC))
    return _append(path, lines)


def _append(path: Path, lines: Iterable[bytes]) -> int:
    with path.open("ab") as file:
        for some in _batches(lines, _LINES):
            file.write(b"".join(some))
        file.flush()
        os.fsync(file.fileno())
        return file.tell()


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some

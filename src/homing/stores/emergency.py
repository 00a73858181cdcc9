"""The emergency journal: outcomes of finished sends that the store refused.

The file has its full size from the start, so that it can be written when the disk is full. A
record is one line: `+ NUMBER LENGTH CHECKSUM JSON`; the `+` becomes `-` once the outcome is safely
stored. Zeros follow the last record. Each record is checked by itself: unreadable ones are
moved to a separate file, and the rest is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from homing.domain.delivery import Change
from homing.stores.codec import decode_change, encode
from homing.stores.os_errors import store_error
from homing.stores.own_files import open_own_file
from homing.stores.syncing import sync_folder

ROOM_BYTES = 1024 * 1024
_LIVE = b"+"
_DONE = b"-"
_HEAD = re.compile(rb"([+-]) ([0-9a-f]{8}) ([0-9a-f]{8}) ([0-9a-f]{8}) ")
_HEAD_BYTES = 29


class FileJournal:
    """A journal in one file, which several processes may share.

    `entries` is called at the start and makes the file. `clear` removes exactly what `entries`
    returned, and nothing that was added later.
    """

    def __init__(self, path: str | Path, *, room_bytes: int = ROOM_BYTES) -> None:
        self.path = Path(path)
        self._room_bytes = room_bytes
        self._read: set[bytes] = set()
        self.damage: str | None = None

    async def append(self, changes: Sequence[Change]) -> None:
        if changes:
            await asyncio.to_thread(self._append, [encode(change) for change in changes])

    async def entries(self) -> list[Change]:
        """All records that were not cleared, oldest first; `damage` says what could not be read."""
        return await asyncio.to_thread(self._entries)

    async def clear(self) -> None:
        await asyncio.to_thread(self._clear)

    def _append(self, bodies: list[bytes]) -> None:
        with self._open() as file:
            found = _scan(file.read())
            numbers = itertools.count(found.last_number + 1)
            added = b"".join(_line(next(numbers), body) for body in bodies)
            file.make_room(found.end + len(added) + 1)
            file.write(found.end, added)

    def _entries(self) -> list[Change]:
        with self._open() as file:
            data = file.read()
            found = _scan(data)
            self.damage = self._quarantine(file, data, found) if found.is_damaged else None
            live = [record for record in found.records if record.live]
            self._read = {record.line for record in live}
            return [decode_change(record.body) for record in live]

    def _quarantine(self, file: _File, data: bytes, found: _Found) -> str:
        """Copy the file, then remove the unreadable parts from it."""
        size = sum(len(data[start:end].strip(b"\0")) for start, end in found.unreadable)
        said = f"{self.path.name}: {size} bytes cannot be read, {found.missing} record(s) missing"
        if not found.unreadable:
            return said
        copy = next(name for name in _quarantine_names(self.path) if not name.exists())
        try:
            with contextlib.closing(_File(copy)) as kept:
                kept.write(0, data.rstrip(b"\0"))
            sync_folder(self.path.parent)
        except OSError as error:
            return f"{said}; no copy could be made: {error.strerror}"
        for start, end in found.unreadable:
            file.write(start, bytes(end - start))
        return f"{said}; the file as it was is {copy.name}"

    def _clear(self) -> None:
        with self._open() as file:
            data = file.read()
            records = _scan(data).records
            done = [record for record in records if record.live and record.line in self._read]
            file.mark(_DONE, [record.start for record in done])
            if len(done) == sum(record.live for record in records):
                # Only finished records are left, so an interrupted wipe does no harm.
                file.write(0, bytes(len(data)))
        self._read = set()

    @contextlib.contextmanager
    def _open(self) -> Iterator[_File]:
        try:
            with contextlib.closing(_File(self.path)) as file:
                file.lock()
                if file.size() == 0:
                    file.make_room(self._room_bytes)
                    sync_folder(self.path.parent)
                yield file
        except OSError as error:
            raise store_error(error, self.path) from error


class _Record(Struct):
    start: int
    live: bool
    number: int
    line: bytes

    @property
    def body(self) -> bytes:
        return self.line[_HEAD_BYTES:]


class _Found(Struct):
    """`unreadable`: ranges that hold something and no whole record. `end`: after all of it."""

    records: list[_Record]
    unreadable: list[tuple[int, int]]
    end: int

    @property
    def is_damaged(self) -> bool:
        return bool(self.unreadable or self.missing)

    @property
    def last_number(self) -> int:
        return max((record.number for record in self.records), default=0)

    @property
    def missing(self) -> int:
        """Records that were written and are not here. What is left of a wipe misses nothing."""
        if not any(record.live for record in self.records):
            return 0
        return self.last_number - len(self.records)


class _File:
    """Reads, and writes that are on the disk when they return."""

    def __init__(self, path: Path) -> None:
        self._descriptor = open_own_file(path, os.O_RDWR)

    def lock(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def close(self) -> None:
        # A child that was forked meanwhile has the descriptor too, and would keep the lock.
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self) -> bytes:
        return os.pread(self._descriptor, self.size(), 0)

    def write(self, start: int, data: bytes) -> None:
        while data:
            written = os.pwrite(self._descriptor, data, start)
            start, data = start + written, data[written:]
        os.fsync(self._descriptor)

    def mark(self, mark: bytes, starts: list[int]) -> None:
        for start in starts:
            os.pwrite(self._descriptor, mark, start)
        os.fsync(self._descriptor)

    def make_room(self, size: int) -> None:
        """Allocate blocks and write them once, so that no later write needs new ones."""
        start = self.size()
        if size > start:
            os.posix_fallocate(self._descriptor, start, size - start)
            self.write(start, bytes(size - start))


def _quarantine_names(path: Path) -> Iterator[Path]:
    return (path.with_name(f"{path.name}.damaged-{number}") for number in itertools.count(1))


def _line(number: int, body: bytes) -> bytes:
    return b"%s %08x %08x %08x %s\n" % (_LIVE, number, len(body), _checksum(number, body), body)


def _checksum(number: int, body: bytes) -> int:
    return zlib.crc32(body, number)


def _scan(data: bytes) -> _Found:
    """Every record that is whole, wherever it stands."""
    records: list[_Record] = []
    unreadable: list[tuple[int, int]] = []
    place, size = 0, len(data.rstrip(b"\0"))
    while place < size:
        record = _record_at(data, place)
        if record is None:
            after = _next_record(data, place + 1, size)
            if data[place:after].strip(b"\0"):
                unreadable.append((place, after))
            place = after
        else:
            records.append(record)
            place = record.start + len(record.line) + 1
    is_half_wiped = data[:1] == b"\0" and records and not any(each.live for each in records)
    if is_half_wiped and unreadable[:1] == [(0, records[0].start)]:
        del unreadable[0]
    return _Found(records, unreadable, size)


def _next_record(data: bytes, start: int, size: int) -> int:
    """Where the next whole record begins; the end of the data if there is none."""
    heads = (match.start() for match in _HEAD.finditer(data, start))
    return next((place for place in heads if _record_at(data, place) is not None), size)


def _record_at(data: bytes, start: int) -> _Record | None:
    head = _HEAD.match(data, start)
    if head is None:
        return None
    number, length, checksum = (int(digits, 16) for digits in head.groups()[1:])
    end = start + _HEAD_BYTES + length
    body = data[start + _HEAD_BYTES : end]
    if data[end : end + 1] != b"\n" or _checksum(number, body) != checksum:
        return None
    return _Record(start, head[1] == _LIVE, number, data[start:end])

"""The emergency journal: outcomes of finished sends that the store refused to take.

The file has its full size from the start, so that it can be written when the disk is full. A
record is one line: `+ LENGTH CHECKSUM JSON`; the `+` becomes `-` once the outcome is safely stored.
After the last record come zeros.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from homing.domain.delivery import Change
from homing.domain.errors import StoreCorrupt, StoreError, StoreFull, StoreUnavailable
from homing.stores.codec import decode_change, encode
from homing.stores.syncing import sync_folder

ROOM_BYTES = 1024 * 1024
_LIVE = b"+"
_DONE = b"-"
_HEAD = re.compile(rb"([+-]) ([0-9a-f]{8}) ([0-9a-f]{8}) ")
_HEAD_BYTES = 20


class FileJournal:
    """A journal in one file, which several processes may share.

    `entries` is called at the start and makes the file. `clear` removes exactly what `entries`
    returned, and nothing that was added later.
    """

    def __init__(self, path: str | Path, *, room_bytes: int = ROOM_BYTES) -> None:
        self.path = Path(path)
        self._room_bytes = room_bytes
        self._read: set[bytes] = set()

    async def append(self, changes: Sequence[Change]) -> None:
        if changes:
            await asyncio.to_thread(self._append, [_record(change) for change in changes])

    async def entries(self) -> list[Change]:
        """What was kept and not cleared, oldest first. Damage raises StoreCorrupt."""
        return await asyncio.to_thread(self._entries)

    async def clear(self) -> None:
        await asyncio.to_thread(self._clear)

    def _append(self, records: list[bytes]) -> None:
        with self._open() as file:
            end = _scan(file.read(), self.path).end
            added = b"".join(records)
            file.make_room(end + len(added) + 1)
            file.write(end, added)

    def _entries(self) -> list[Change]:
        with self._open() as file:
            data = file.read()
            found = _scan(data, self.path)
            # A torn end was never acknowledged. Wiped, it is not taken for damage later.
            if found.end < len(data.rstrip(b"\0")):
                file.write(found.end, bytes(len(data) - found.end))
            live = [record for record in found.records if record.live]
            self._read = {record.line for record in live}
            return [decode_change(record.line[_HEAD_BYTES:]) for record in live]

    def _clear(self) -> None:
        with self._open() as file:
            data = file.read()
            records = _scan(data, self.path).records
            done = [record for record in records if record.live and record.line in self._read]
            file.mark(_DONE, [record.start for record in done])
            if len(done) == sum(record.live for record in records):
                # Only finished records are left, so an interrupted wipe does no harm.
                file.write(0, bytes(len(data)))
        self._read = set()

    @contextlib.contextmanager
    def _open(self) -> Iterator[_File]:
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                file = _File(descriptor)
                if file.size() == 0:
                    file.make_room(self._room_bytes)
                    sync_folder(self.path.parent)
                yield file
            finally:
                # A child that was forked meanwhile has the descriptor too, and would keep the lock.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                os.close(descriptor)
        except OSError as error:
            raise _store_error(error, self.path) from error


class _Record(Struct):
    start: int
    live: bool
    line: bytes


class _Found(Struct):
    records: list[_Record]
    end: int


class _File:
    """Reads and writes that are on the disk when they return."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

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


def _record(change: Change) -> bytes:
    body = encode(change)
    return b"%s %08x %08x %s\n" % (_LIVE, len(body), zlib.crc32(body), body)


def _scan(data: bytes, path: Path) -> _Found:
    """All records up to the first that is incomplete; a live one after it means damage."""
    found = _Found([], 0)
    while (record := _record_at(data, found.end)) is not None:
        found.records.append(record)
        found.end += len(record.line) + 1
    for match in _HEAD.finditer(data, found.end):
        later = _record_at(data, match.start())
        if later is not None and later.live:
            raise StoreCorrupt(f"{path.name}: damaged at byte {found.end}, with records after it")
    return found


def _record_at(data: bytes, start: int) -> _Record | None:
    head = _HEAD.match(data, start)
    if head is None:
        return None
    body = start + _HEAD_BYTES
    end = body + int(head[2], 16)
    if data[end : end + 1] != b"\n" or zlib.crc32(data[body:end]) != int(head[3], 16):
        return None
    return _Record(start, head[1] == _LIVE, data[start:end])


def _store_error(error: OSError, path: Path) -> StoreError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return (StoreFull if full else StoreUnavailable)(f"{path.name}: {error.strerror}")

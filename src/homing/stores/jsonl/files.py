"""A file that is only appended to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from homing.stores.host.descriptors import OwnDescriptor
from homing.stores.own_files import open_own_file
from homing.stores.syncing import sync_folder

# Small enough for a processor's cache: each byte is looked at several times.
_CHUNK_BYTES = 256 * 1024


class AppendFile:
    """`end` is how far its lines are known; more may have been appended since. `synced` is what
    was on the disk after the last sync of this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        is_new = not path.exists()
        self._own = OwnDescriptor(open_own_file(path, os.O_RDWR | os.O_APPEND))
        self.end = 0
        self.synced = 0
        if is_new:
            os.fsync(self._own.number)
            sync_folder(path.parent)

    def close(self) -> None:
        self._own.close()

    @property
    def is_current(self) -> bool:
        """Whether all of the file is known."""
        found = os.stat(self.path)  # noqa: PTH116 - before each request
        return found.st_size == self.end and found.st_ino == os.fstat(self._own.number).st_ino

    @property
    def is_replaced(self) -> bool:
        """Whether it is another file by now, or has lost what was known of it."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - before each group of requests
        except FileNotFoundError:
            return True
        return found.st_ino != os.fstat(self._own.number).st_ino or found.st_size < self.end

    @property
    def size(self) -> int:
        return os.fstat(self._own.number).st_size

    def read(self, start: int, length: int) -> bytes:
        data = os.pread(self._own.number, length, start)
        while len(data) < length:
            more = os.pread(self._own.number, length - len(data), start + len(data))
            if not more:
                break
            data += more
        return data

    def lines(self, start: int) -> Iterator[bytes]:
        """What comes after `start`, line by line; only the last one may have no line feed."""
        for lines, feed in self.chunks(start):
            for line in lines:
                yield line + feed

    def chunks(self, start: int) -> Iterator[tuple[list[bytes], bytes]]:
        """What comes after `start`, as lines and what each of them was followed by."""
        place, rest = start, b""
        while data := os.pread(self._own.number, _CHUNK_BYTES, place):
            place += len(data)
            *lines, rest = (rest + data).split(b"\n")
            yield lines, b"\n"
        if rest:
            yield [rest], b""

    def append(self, data: bytes | bytearray) -> int:
        """Not yet on the disk. Returns where it begins: after `end`, if a program that takes no
        lock has appended. On an error some of it may be in the file."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._own.number, view) :]
        self.end += len(data)
        return os.lseek(self._own.number, 0, os.SEEK_CUR) - len(data)

    def overwrite(self, start: int, data: bytes) -> None:
        """Restore bytes that have changed on the disk; durable when this returns."""
        # Not by the descriptor that appends: there, Linux appends whatever place is asked for.
        with self.path.open("r+b", buffering=0) as file:
            file.seek(start)
            file.write(data)
            os.fsync(file.fileno())

    def sync(self) -> None:
        os.fdatasync(self._own.number)
        self.synced = self.end

    def cut(self, end: int) -> None:
        """Remove what was appended after `end`; it is gone when this returns."""
        os.ftruncate(self._own.number, end)
        os.fsync(self._own.number)
        self.end = self.synced = end

"""The delivery log: one line for each session whose mail was sent, and an index of all of it."""

from __future__ import annotations

import asyncio
import functools
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path

from homing.domain.delivery import Delivery, Receipt
from homing.observers.lines import LineFile

_SESSION = re.compile(rb"^\S+ DELIVERED session=(\S+) ", re.MULTILINE)
_MARK = re.compile(rb" DELIVERED session=\S+ ")
_PIECE_BYTES = 1024 * 1024


class DeliveryLog:
    """Other processes, and other programs, append to the same file: each look reads on from where
    the last one ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = LineFile(path, _MARK)
        self._sessions: set[bytes] = set()
        self._read_bytes = 0
        self._inode = 0
        # Taken last: also by the thread of the store, under the lock of the queue file.
        self._reading = threading.Lock()

    async def has(self, session_id: str) -> bool:
        return await asyncio.to_thread(self.holds, session_id)

    def holds(self, session_id: str) -> bool:
        """Compares the whole word: a session whose id begins alike is another one."""
        with self._reading:
            self._read_on()
            return session_id.encode() in self._sessions

    def receipt_of(self, delivery: Delivery) -> Receipt | None:
        """For a store that looks here before it gives out a delivery."""
        if not self.holds(delivery.key or ""):
            return None
        return Receipt(evidence="lookup", detail="in the delivery log")

    def append(self, lines: Mapping[str, str]) -> None:
        """By session; those of which a line exists already are left out. May raise OSError."""
        self._file.append([line for session, line in lines.items() if not self.holds(session)])

    def _read_on(self) -> None:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._begin_anew(0)
            return
        try:
            found = os.fstat(descriptor)
            if found.st_ino != self._inode or found.st_size < self._read_bytes:
                self._begin_anew(found.st_ino)
            while piece := os.pread(descriptor, _PIECE_BYTES, self._read_bytes):
                whole = piece.rfind(b"\n") + 1
                if not whole:
                    return  # a line that is still being written, or was cut off
                self._sessions.update(_SESSION.findall(piece, 0, whole))
                self._read_bytes += whole
        finally:
            os.close(descriptor)

    def _begin_anew(self, inode: int) -> None:
        """The file was replaced by another one."""
        self._inode, self._read_bytes = inode, 0
        self._sessions.clear()


@functools.cache
def log_at(path: str) -> DeliveryLog:
    """One for each file of a process: they share the index."""
    return DeliveryLog(Path(path))

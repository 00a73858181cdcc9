"""`JsonlStore`: the Store port over a queue file and a folder beside it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from homing.domain.errors import StoreUnavailable
from homing.domain.shown import Projection
from homing.ports import AcceptedLog, Answers, Batch, Finding, ForeignLine
from homing.runtime import forks
from homing.stores.host import ProcessLocks, WakePipes
from homing.stores.host.pipes import DUE
from homing.stores.jsonl.checks import EMERGENCY, findings
from homing.stores.jsonl.committing import execute
from homing.stores.jsonl.index import LogIndex
from homing.stores.jsonl.locking import LOCK_WITHIN_S
from homing.stores.jsonl.log import Log, folder_of
from homing.stores.jsonl.thread import StoreThread
from homing.stores.memory.reading import ReadsDisk
from homing.stores.store_signal import StoreSignal

T = TypeVar("T")


class JsonlStore(ReadsDisk):
    """Durable in plain files; several processes of one host may share it.

    Use it from the event loop in which it was opened. A call that is cancelled may or may not
    have been stored.
    """

    def __init__(self, path: str | Path, *, lock_within_s: float = LOCK_WITHIN_S) -> None:
        self.path = Path(path)
        self._lock_within_s = lock_within_s
        self._projection: Projection | None = None
        self._accepted: AcceptedLog | None = None
        self._processes = folder_of(self.path) / "processes"
        self._be_closed()
        forks.forget_in_child(self)

    def _be_closed(self) -> None:
        self._news = StoreSignal()
        self._pipes = WakePipes(self._processes)
        self.presence = ProcessLocks(self._processes)
        self._thread: StoreThread | None = None

    _forget_parent = _be_closed

    def show(self, projection: Projection) -> None:
        # For the lines: each is made whole when it is encoded, so writes carry nothing of it.
        self._projection = projection

    def ask(self, log: AcceptedLog) -> None:
        self._accepted = log

    async def compact(self) -> tuple[int, int]:
        return await self._open.write(Log.compact)

    async def foreign_lines(self) -> list[ForeignLine]:
        return await self._read(LogIndex.foreign_lines)

    async def open(self) -> None:
        if self._thread is not None:
            raise StoreUnavailable(f"{self.path.name}: the store is already open")
        thread = StoreThread(
            self.path,
            lambda: Log(self.path, self._projection),
            self._lock_within_s,
            self._news.tell,
            lambda: self._pipes.send(DUE),
        )
        await thread.start()
        self._thread = thread

    async def close(self) -> None:
        """Requests that were made before are finished first."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await thread.stop()
            self._pipes.close()
            with contextlib.suppress(OSError):  # others are in it
                self._processes.rmdir()
            self._news.tell()

    @property
    def journal_path(self) -> Path:
        """Beside the queue, so that all is moved and backed up together."""
        return folder_of(self.path) / EMERGENCY

    async def findings(self) -> list[Finding]:
        return await asyncio.to_thread(lambda: list(findings(self.path)))

    async def commit(self, batch: Batch) -> Answers:
        if batch.claims:
            self._news.look()
        return await self._open.write(lambda log: execute(log, batch, self._accepted))

    async def wait(self, timeout_s: float) -> None:
        """Commits of other processes are noticed at once, lines of other programs within 250 ms."""
        self._open.listen(is_signalled=self._pipes.listen(self._receive))
        await self._news.wait(timeout_s)

    def _receive(self, signals: bytes) -> None:
        if DUE in signals:
            self._news.tell()

    async def _read(self, work: Callable[[LogIndex], T]) -> T:
        return await self._open.read(work)

    @property
    def _open(self) -> StoreThread:
        if self._thread is None:
            raise StoreUnavailable(f"{self.path.name}: the store is not open")
        return self._thread

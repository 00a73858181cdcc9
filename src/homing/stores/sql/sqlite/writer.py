"""The one thread that writes: batch after batch, each in one durable commit."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from msgspec import Struct

from homing.domain.errors import StoreError, StoreUnavailable
from homing.ports import Batch
from homing.stores.answering import answer_all, call_in, settle
from homing.stores.sql.layouts import LayoutTables
from homing.stores.sql.sqlite.checkpoint import Checkpointer
from homing.stores.sql.sqlite.committing import Committer, Done, Job
from homing.stores.sql.sqlite.connection import connect_to_write
from homing.stores.sql.sqlite.faults import store_error
from homing.stores.sql.sqlite.fork_pause import ForkPause
from homing.stores.sql.sqlite.high_water import HighWater
from homing.stores.sql.sqlite.looking import Assumed

# Processes that commit signal the listeners; a look only finds what other programs commit.
LOOK_EVERY_S = 0.25
CLOSE_LOOK_EVERY_S = 0.004
LOOK_CLOSELY_FOR_S = 1.0
IDLE_EVERY_S = 1.0


class Writer:
    """Executes batches in the order in which they were submitted.

    `tell` is called in the event loop when something may have become due, be it by a commit of
    ours or by one of another connection or process. `wake_others` is called in the writer's
    thread after a commit of ours that may have made something due.
    """

    def __init__(
        self,
        path: Path,
        busy_timeout_s: float,
        tell: Callable[[], None],
        wake_others: Callable[[], None],
        running: Callable[[], Collection[str]],
    ) -> None:
        """`running` names the other processes of this host that work on the file."""
        self._path = path
        self._file = ForkPause(lambda: self._open(busy_timeout_s, running), _close)
        self._tell = tell
        self._wake_others = wake_others
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._call = partial(call_in, self._loop)
        self._thread: threading.Thread | None = None
        self._committer: Committer | None = None
        self._listening = False
        self._is_signalled = False
        self._closely_until_s = 0.0
        self._closing = False
        # The tables of record layouts that are there, once the store is open.
        self.layouts: LayoutTables | None = None

    async def start(self) -> None:
        """Open the database in the thread that will write to it."""
        ready: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(
            target=self._live, args=(ready,), name=f"homing writer {self._path.name}", daemon=True
        )
        self._thread.start()
        try:
            await ready
        except asyncio.CancelledError:
            self._closing = True
            self._queue.put(None)
            raise
        except Exception:
            await asyncio.to_thread(self._thread.join)
            raise

    @property
    def looks_for_keys(self) -> bool:
        """Whether new keys were repeated of late, so that it is better to look for them first."""
        return self._committer is not None and self._committer.looks_for_keys

    def submit(self, batch: Batch, assumed: Assumed) -> asyncio.Future[Done]:
        if self._closing:
            raise StoreUnavailable(f"{self._path.name}: the store is closed")
        future: asyncio.Future[Done] = self._loop.create_future()
        self._queue.put(Job(batch, assumed, future, self.layouts))
        return future

    def listen(self, *, is_signalled: bool) -> None:
        """Start to notice commits of other connections; look often unless they send signals."""
        if not self._listening or is_signalled != self._is_signalled:
            self._listening, self._is_signalled = True, is_signalled
            self._queue.put(None)

    def look_closely(self) -> None:
        """Another connection is about to commit something, and cannot send a signal after that."""
        self._closely_until_s = time.monotonic() + LOOK_CLOSELY_FOR_S
        self._queue.put(None)

    async def stop(self) -> None:
        """Finish what was submitted, then leave the file in order."""
        self._closing = True
        if self._committer is not None:
            self._committer.is_closing = True
        if self._thread is not None and self._thread.is_alive():
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)

    def _live(self, ready: asyncio.Future[None]) -> None:
        try:
            with self._file:
                self._call(settle, ready)
        except (sqlite3.Error, OSError) as error:
            self._call(settle, ready, None, store_error(error, self._path))
            return
        except BaseException as error:
            self._call(settle, ready, None, error)
            return
        try:
            self._serve()
        finally:
            self._file.close()

    def _open(self, busy_timeout_s: float, running: Callable[[], Collection[str]]) -> _File:
        connection = connect_to_write(self._path, busy_timeout_s, running)
        try:
            high_water = HighWater(self._path, connection)
            self._committer = Committer(
                connection, self._path, busy_timeout_s, high_water, self._wake_others
            )
            checkpointer = Checkpointer(self._path, connection)
            return _File(connection, self._committer, checkpointer, high_water)
        except BaseException:
            connection.close()
            raise

    def _serve(self) -> None:
        heard, looked_at_s = None, 0.0
        while True:
            job = self._next()
            if job is not None:
                news = self._commit(job)
                self._call(answer_all, [job], self._tell if news else None)
            if self._closing and self._queue.empty():
                return
            now_s = time.monotonic()
            if now_s - looked_at_s < min(self._look_every_s(), LOOK_EVERY_S):
                continue
            looked_at_s = now_s
            # If the database is locked or full, the next request meets that too and reports it.
            with contextlib.suppress(sqlite3.Error, OSError, StoreError), self._file as file:
                # It changes with what other connections commit, and not with what this one does.
                version = file.connection.execute("pragma data_version").fetchone()
                if version != heard:
                    heard = version
                    self._call(self._tell)
                file.checkpointer.care(now_s)

    def _commit(self, job: Job) -> bool:
        """Returns whether something may be due. After a fork the file may fail to open again."""
        try:
            with self._file as file:
                return file.committer.commit(job)
        except (sqlite3.Error, OSError) as error:
            job.error = store_error(error, self._path)
        except StoreError as error:
            job.error = error
        return False

    def _look_every_s(self) -> float:
        if not self._listening:
            return IDLE_EVERY_S
        is_close = not self._is_signalled or time.monotonic() < self._closely_until_s
        return CLOSE_LOOK_EVERY_S if is_close else LOOK_EVERY_S

    def _next(self) -> Job | None:
        """None when it is time to look for other commits."""
        with contextlib.suppress(queue.Empty):
            return self._queue.get(timeout=self._look_every_s())
        return None


class _File(Struct):
    connection: sqlite3.Connection
    committer: Committer
    checkpointer: Checkpointer
    high_water: HighWater


def _close(file: _File) -> None:
    try:
        file.high_water.close()
        file.checkpointer.close()
    finally:
        file.connection.close()

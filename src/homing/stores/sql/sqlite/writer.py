"""The one thread that writes. Requests that arrive during a commit share one of the next."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import sqlite3
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from homing.domain.errors import StoreError, StoreUnavailable
from homing.stores.answering import answer_all, call_in, settle
from homing.stores.sql.sqlite.adding import add_all
from homing.stores.sql.sqlite.checkpoint import Checkpointer
from homing.stores.sql.sqlite.committing import Committer, Job, Work
from homing.stores.sql.sqlite.connection import connect_to_write
from homing.stores.sql.sqlite.faults import store_error
from homing.stores.sql.sqlite.fork_pause import ForkPause
from homing.stores.sql.sqlite.high_water import HighWater

LARGEST_GROUP = 4096
# Processes that commit signal the listeners; a look only finds what other programs commit.
LOOK_EVERY_S = 0.25
CLOSE_LOOK_EVERY_S = 0.004
LOOK_CLOSELY_FOR_S = 1.0
IDLE_EVERY_S = 1.0
QUICK_COMMIT_S = 0.002


class Writer:
    """Runs requests in groups: one durable commit, then all their answers at once.

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
        self._commit_s = 0.0
        self._later: list[Job] = []

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

    def submit(self, work: Work, request: Any, size: int) -> asyncio.Future[Any]:
        if self._closing:
            raise StoreUnavailable(f"{self._path.name}: the store is closed")
        future = self._loop.create_future()
        self._queue.put(Job(work, request, size, future))
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
            jobs = self._gather()
            if jobs:
                began_s = time.monotonic()
                news = self._commit(jobs)
                self._commit_s = time.monotonic() - began_s
                self._call(answer_all, jobs, self._tell if news else None)
            if self._closing and self._queue.empty() and not self._later:
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

    def _commit(self, jobs: list[Job]) -> bool:
        """True if something may be due. After a fork the file may fail to open again."""
        try:
            with self._file as file:
                return file.committer.commit(jobs)
        except (sqlite3.Error, OSError) as error:
            fault: StoreError = store_error(error, self._path)
        except StoreError as error:
            fault = error
        for job in jobs:
            job.error = fault
        return False

    def _look_every_s(self) -> float:
        if not self._listening:
            return IDLE_EVERY_S
        is_close = not self._is_signalled or time.monotonic() < self._closely_until_s
        return CLOSE_LOOK_EVERY_S if is_close else LOOK_EVERY_S

    def _gather(self) -> list[Job]:
        """The next group of requests, or none when it is time to look for other commits."""
        jobs, self._later = self._later, []
        size = sum(job.size for job in jobs)
        try:
            first = self._queue.get(timeout=0 if jobs else self._look_every_s())
            while first is not None:
                jobs.append(first)
                size += first.size
                if size >= LARGEST_GROUP:
                    break
                first = self._queue.get_nowait()
        except queue.Empty:
            pass
        number = number_in_turn(jobs, self._commit_s)
        self._later = jobs[number:]
        return jobs[:number]


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


def number_in_turn(jobs: list[Job], commit_s: float) -> int:
    """How many of these requests are committed next, if the last commit took so long.

    Two groups of adds take turns: one is committed while the event loop answers and prepares the
    other. On a slow disk all go together, because there only the number of commits matters.
    """
    if len(jobs) < 2 or commit_s > QUICK_COMMIT_S:
        return len(jobs)
    if any(job.work is not add_all for job in jobs):
        return len(jobs)
    sizes = [*itertools.accumulate(job.size for job in jobs)]
    return 1 + bisect_left(sizes, sizes[-1] / 2)

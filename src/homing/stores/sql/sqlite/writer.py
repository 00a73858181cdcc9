"""The one thread that writes. What has gathered while it was busy goes into its next commit."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from homing.domain.errors import StoreCorrupt, StoreOutcomeUnknown, StoreUnavailable
from homing.stores.sql.sqlite.adding import add_all
from homing.stores.sql.sqlite.checkpoint import Checkpointer
from homing.stores.sql.sqlite.claiming import claim_all, renew_all
from homing.stores.sql.sqlite.connection import connect_to_write
from homing.stores.sql.sqlite.faults import store_error
from homing.stores.sql.sqlite.purging import purge_all
from homing.stores.sql.sqlite.saving import save_all
from homing.stores.sql.sqlite.session import Session

Work: TypeAlias = Callable[[Session, Sequence[Any]], Sequence[Any]]
# Concurrent requests have no order among them, so kinds are done together; claims come last
# because then they find what the others made due.
ORDER: tuple[Work, ...] = (add_all, save_all, renew_all, purge_all, claim_all)

# After these no request of the group would fare better alone.
HOPELESS = (StoreUnavailable, StoreOutcomeUnknown, StoreCorrupt)

LARGEST_GROUP = 4096
LISTEN_EVERY_S = 0.01
IDLE_EVERY_S = 1.0


class Job(Struct, eq=False):
    """A request on its way to the writer, and where the answer goes."""

    work: Work
    request: Any
    size: int
    future: asyncio.Future[Any]
    answer: Any = None
    error: BaseException | None = None


class Writer:
    """Runs requests in groups: one durable commit, then all their answers at once.

    `tell` is called in the event loop when something may have become due, be it by a commit of
    ours or by one of another connection or process.
    """

    def __init__(self, path: Path, busy_timeout_s: float, tell: Callable[[], None]) -> None:
        self._path = path
        self._busy_timeout_s = busy_timeout_s
        self._tell = tell
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread: threading.Thread | None = None
        self._listening = False
        self._closing = False

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
            raise

    def submit(self, work: Work, request: Any, size: int) -> asyncio.Future[Any]:
        if self._closing:
            raise StoreUnavailable(f"{self._path.name}: the store is closed")
        future = self._loop.create_future()
        self._queue.put(Job(work, request, size, future))
        return future

    def listen(self) -> None:
        """From now on notice quickly what other connections commit."""
        if not self._listening:
            self._listening = True
            self._queue.put(None)

    async def stop(self) -> None:
        """Finish what was submitted, then leave the file in order."""
        self._closing = True
        if self._thread is not None and self._thread.is_alive():
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)

    def _live(self, ready: asyncio.Future[None]) -> None:
        try:
            connection = connect_to_write(self._path, self._busy_timeout_s)
            checkpointer = Checkpointer(self._path, connection)
        except (sqlite3.Error, OSError) as error:
            self._call(_settle, ready, store_error(error, self._path))
            return
        except BaseException as error:
            self._call(_settle, ready, error)
            return
        try:
            self._call(_settle, ready, None)
            self._serve(connection, checkpointer)
        finally:
            checkpointer.close()
            connection.close()

    def _serve(self, connection: sqlite3.Connection, checkpointer: Checkpointer) -> None:
        committer = Committer(connection, self._path)
        heard, looked_at_s = None, 0.0
        while True:
            jobs = self._gather()
            if jobs:
                news = committer.commit(jobs)
                self._call(_answer, jobs, self._tell if news else None)
            if self._closing and self._queue.empty():
                return
            now_s = time.monotonic()
            if now_s - looked_at_s < LISTEN_EVERY_S:
                continue
            looked_at_s = now_s
            # A database that is locked or full now is met again by the next request, and told.
            with contextlib.suppress(sqlite3.Error):
                # It changes with what other connections commit, and not with what this one does.
                version = connection.execute("pragma data_version").fetchone()
                if version != heard:
                    heard = version
                    self._call(self._tell)
                checkpointer.care(now_s)

    def _gather(self) -> list[Job]:
        """All that waits, or nothing when it is time to look around."""
        jobs: list[Job] = []
        size = 0
        try:
            first = self._queue.get(timeout=LISTEN_EVERY_S if self._listening else IDLE_EVERY_S)
            while first is not None:
                jobs.append(first)
                size += first.size
                if size >= LARGEST_GROUP:
                    break
                first = self._queue.get_nowait()
        except queue.Empty:
            pass
        return jobs

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        # Nobody is left to hear of it when the loop was closed first.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)


class Committer:
    """One group, one transaction. A request that fails does not spoil the others."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._committing = False

    def commit(self, jobs: list[Job]) -> bool:
        """Every job has its answer or its error afterwards; true if something may be due."""
        try:
            return self._transact(jobs)
        except Exception as error:
            fault = self._back_out(error)
        if len(jobs) == 1:
            jobs[0].error = fault
            return False
        if isinstance(fault, HOPELESS):
            for job in jobs:
                job.error = type(fault)(*fault.args)
            return False
        news = [self.commit([job]) for job in jobs]
        return any(news)

    def _transact(self, jobs: list[Job]) -> bool:
        connection = self._connection
        session = Session(connection)
        connection.execute("begin immediate")
        for work in ORDER:
            group = [job for job in jobs if job.work is work]
            if group:
                answers = work(session, [job.request for job in group])
                for job, answer in zip(group, answers, strict=True):
                    job.answer = answer
        session.finish()
        self._committing = True
        connection.execute("commit")
        self._committing = False
        return session.news

    def _back_out(self, error: Exception) -> Exception:
        committing, self._committing = self._committing, False
        fault = error
        if isinstance(error, sqlite3.Error):
            fault = store_error(error, self._path, committing=committing)
            fault.__cause__ = error
        try:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
        except sqlite3.Error as second:
            return store_error(second, self._path)
        return fault


def _settle(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def _answer(jobs: list[Job], tell: Callable[[], None] | None) -> None:
    for job in jobs:
        if job.future.done():  # its caller was cancelled
            continue
        if job.error is None:
            job.future.set_result(job.answer)
        else:
            job.future.set_exception(job.error)
    if tell is not None:
        tell()

"""The one thread that uses the files and the index. It works off requests in order."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from homing.domain.errors import StoreUnavailable
from homing.stores.answering import call_in, settle
from homing.stores.jsonl.index import LogIndex
from homing.stores.jsonl.log import DamagedLine, Log
from homing.stores.os_errors import store_error

T = TypeVar("T")
Job: TypeAlias = tuple[Callable[[Log], Any], asyncio.Future[Any]]
"""A request, and where its answer goes."""

# Processes that commit signal the listeners; a look finds what other programs append.
LOOK_EVERY_S = 0.25
UNSIGNALLED_LOOK_EVERY_S = 0.02


class StoreThread:
    """`tell` is called in the event loop when something may have become due. `wake_others` is
    called in the thread after a commit of ours that may have made something due."""

    def __init__(
        self,
        path: Path,
        open_log: Callable[[], Log],
        lock_within_s: float,
        tell: Callable[[], None],
        wake_others: Callable[[], None],
    ) -> None:
        self._path = path
        self._open_log = open_log
        self._lock_within_s = lock_within_s
        self._tell = tell
        self._wake_others = wake_others
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._call = partial(call_in, self._loop)
        self._thread = threading.Thread(
            target=self._live, name=f"homing store {path.name}", daemon=True
        )
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._look_every_s: float | None = None
        self._closing = False

    async def start(self) -> None:
        """Open the files in the thread that will use them, and read them."""
        self._thread.start()
        try:
            await self._ready
        except asyncio.CancelledError:
            self._closing = True
            self._queue.put(None)
            raise
        except Exception:
            await asyncio.to_thread(self._thread.join)
            raise

    def read(self, work: Callable[[LogIndex], T]) -> asyncio.Future[T]:
        until_s = time.monotonic() + self._lock_within_s
        return self._submit(lambda log: log.read(work, until_s))

    def write(self, work: Callable[[Log], T]) -> asyncio.Future[T]:
        until_s = time.monotonic() + self._lock_within_s

        def locked(log: Log) -> T:
            with log.locked(until_s):
                return work(log)

        return self._submit(locked)

    def _submit(self, work: Callable[[Log], T]) -> asyncio.Future[T]:
        if self._closing:
            raise StoreUnavailable(f"{self._path.name}: the store is closed")
        future = self._loop.create_future()
        self._queue.put((work, future))
        return future

    def listen(self, *, is_signalled: bool) -> None:
        """Start to notice what others append; look often unless they send signals."""
        every_s = LOOK_EVERY_S if is_signalled else UNSIGNALLED_LOOK_EVERY_S
        if every_s != self._look_every_s:
            self._look_every_s = every_s
            self._queue.put(None)

    async def stop(self) -> None:
        """Finish what was submitted, then close the files."""
        self._closing = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _live(self) -> None:
        try:
            with contextlib.closing(self._open_log()) as log:
                with log.locked(time.monotonic() + self._lock_within_s):
                    pass
                self._call(settle, self._ready)
                self._serve(log)
        except OSError as error:
            self._call(settle, self._ready, None, store_error(error, self._path))
        except BaseException as error:
            self._call(settle, self._ready, None, error)

    def _serve(self, log: Log) -> None:
        while True:
            try:
                job = self._queue.get(timeout=self._look_every_s)
            except queue.Empty:
                job = None
            if job is not None:
                self._run(log, *job)
            elif self._look_every_s is not None and not log.is_current:
                self._call(self._tell)
            if self._closing and self._queue.empty():
                return

    def _run(self, log: Log, work: Callable[[Log], Any], future: asyncio.Future[Any]) -> None:
        answer: Any = None
        refusal: Exception | None = None
        try:
            try:
                answer = work(log)
            except DamagedLine:
                # What is damaged is set aside before it runs again.
                answer = work(log)
        except OSError as error:
            refusal = store_error(error, self._path)
        except Exception as error:
            refusal = error
        self._call(settle, future, answer, refusal)
        if log.may_be_due:
            log.may_be_due = False
            self._wake_others()
            self._call(self._tell)

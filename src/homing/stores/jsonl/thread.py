"""The one thread that uses the files and the index. Requests that arrive during a commit share the
next one."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from homing.domain.errors import StoreUnavailable
from homing.stores.answering import answer_all, call_in, settle
from homing.stores.jsonl.committing import Job, Kind, Work, run
from homing.stores.jsonl.log import Log
from homing.stores.os_errors import store_error

LARGEST_GROUP = 4096
# Processes that commit signal the listeners; a look finds what other programs append.
LOOK_EVERY_S = 0.25
UNSIGNALLED_LOOK_EVERY_S = 0.02


class StoreThread:
    """Runs requests in groups: one durable write, then all their answers at once.

    `tell` is called in the event loop when something may have become due. `wake_others` is called
    in the thread after a commit of ours that may have made something due.
    """

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

    def submit(
        self, work: Work, kind: Kind, *, size: int = 1, durable: bool = True
    ) -> asyncio.Future[Any]:
        if self._closing:
            raise StoreUnavailable(f"{self._path.name}: the store is closed")
        future = self._loop.create_future()
        until_s = time.monotonic() + self._lock_within_s
        self._queue.put(Job(work, future, until_s, kind, size, durable))
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
            log = self._open_log()
        except BaseException as error:
            self._call(settle, self._ready, None, error)
            return
        try:
            with log.locked(time.monotonic() + self._lock_within_s):
                pass
            self._call(settle, self._ready)
            self._serve(log)
        except OSError as error:
            self._call(settle, self._ready, None, store_error(error, self._path))
        except BaseException as error:
            self._call(settle, self._ready, None, error)
        finally:
            log.close()

    def _serve(self, log: Log) -> None:
        while True:
            jobs = self._gather()
            if jobs:
                may_be_due = run(log, jobs)
                if may_be_due:
                    self._wake_others()
                self._call(answer_all, jobs, self._tell if may_be_due else None)
            elif self._look_every_s is not None and not log.is_current:
                self._call(self._tell)
            if self._closing and self._queue.empty():
                return

    def _gather(self) -> list[Job]:
        """All waiting requests, or none when it is time to look for what others appended."""
        jobs: list[Job] = []
        size = 0
        with contextlib.suppress(queue.Empty):
            first = self._queue.get(timeout=self._look_every_s)
            while first is not None:
                jobs.append(first)
                size += first.size
                if size >= LARGEST_GROUP:
                    break
                first = self._queue.get_nowait()
        return jobs

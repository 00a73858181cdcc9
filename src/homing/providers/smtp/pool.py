"""A bounded number of connections, shared by everything that is being sent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from homing.domain.failure import Failure
from homing.providers.smtp.classification import failure
from homing.providers.smtp.connection import Connection, Job
from homing.providers.smtp.features import Features
from homing.providers.smtp.opening import Session
from homing.providers.smtp.recent_success import RecentSuccess
from homing.providers.smtp.url import SmtpSettings

# How many sends may be prepared for each connection, and how long the last of them may have to
# wait there. A server that is slow, or not known yet, gets fewer: a send that times out in
# `prepare` was not sent, while after the durable mark a timeout leaves it in doubt.
MAX_DEPTH = 8
MAX_QUEUED_S = 1.0
LATENCY_WEIGHT = 0.1
# After a further connection was refused, no other is opened for this long.
GROW_AGAIN_AFTER_S = 5.0
CLOSE_GRACE_S = 5.0


class Pool:
    """Opens connections as sends are reserved, one first: bad credentials are tried once."""

    def __init__(
        self, settings: SmtpSettings, dial: Callable[[], Awaitable[Session | Failure]]
    ) -> None:
        self._settings = settings
        self._size = settings.pool_size
        self._dial = dial
        self._live: set[Connection] = set()
        self._leaving: set[Connection] = set()
        self._free: list[Connection] = []
        self._dialling: set[asyncio.Task[Connection | Failure]] = set()
        self._queue: deque[Job] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._reserved = 0
        self._to_flush: list[Connection] = []
        self._latency_s = MAX_QUEUED_S
        self._grow_from_s = 0.0
        self._closing = False
        self.success = RecentSuccess()

    async def reserve(self, most: int = 1) -> tuple[Features, int] | Failure:
        """Places for sends, once there is a healthy connection: as many as are free, at least one.

        Give each back by `release`. Waits while too many others have a place. A caller that has a
        place must not wait for more.
        """
        if not self._live and (failed := await self._revive()) is not None:
            return failed
        if self._waiting or self._reserved >= self._limit:
            await self._wait_for_place()
        else:
            self._reserved += 1
        if not self._live and (failed := await self._revive_or_release()) is not None:
            return failed
        further = 0 if self._waiting else max(min(most - 1, self._limit - self._reserved), 0)
        self._reserved += further
        self._grow()
        return next(iter(self._live)).features, 1 + further

    def release(self, places: int = 1) -> None:
        self._reserved -= places
        self._admit()

    def submit(self, job: Job) -> None:
        """Send it, now or when a connection is free."""
        self._queue.append(job)
        self._dispatch()

    async def close(self) -> None:
        """Send QUIT to every server; sends under way may end within the grace."""
        self._closing = True
        for task in self._dialling:
            task.cancel()
        self._fail_queue(_CLOSED)
        closing = [connection.close(CLOSE_GRACE_S) for connection in self._live | self._leaving]
        await asyncio.gather(*closing, *self._dialling, return_exceptions=True)

    def next_job(self) -> Job | None:
        while self._queue:
            job = self._queue.popleft()
            if not job.over:
                return job
        return None

    def flush_soon(self, connection: Connection) -> None:
        # All of one turn of the loop are written in a row: a server that is awake anyway costs
        # far less to write to than one that must be woken for every message.
        if not self._to_flush:
            asyncio.get_running_loop().call_soon(self._flush)
        self._to_flush.append(connection)

    def give_back(self, job: Job) -> None:
        self._queue.appendleft(job)
        self._dispatch()

    def answered(self, latency_s: float) -> None:
        self._latency_s += LATENCY_WEIGHT * (latency_s - self._latency_s)

    def free(self, connection: Connection) -> None:
        if connection not in self._free:
            self._free.append(connection)

    def gone(self, connection: Connection) -> None:
        self._live.discard(connection)
        if not connection.lost.done():
            self._leaving.add(connection)
            connection.lost.add_done_callback(lambda _: self._leaving.discard(connection))
        if connection in self._free:
            self._free.remove(connection)
        self._grow()

    @property
    def _limit(self) -> int:
        if self._latency_s * MAX_DEPTH <= MAX_QUEUED_S:
            return self._size * MAX_DEPTH
        return self._size * max(1, int(MAX_QUEUED_S / self._latency_s))

    def _flush(self) -> None:
        connections, self._to_flush = self._to_flush, []
        for connection in connections:
            connection.flush()

    def _dispatch(self) -> None:
        if self._closing:
            self._fail_queue(_CLOSED)
        elif self._free:
            self._free.pop().serve()
        else:
            self._grow()

    async def _wait_for_place(self) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.release()
            raise

    def _admit(self) -> None:
        while self._waiting and self._reserved < self._limit:
            place = self._waiting.popleft()
            if not place.done():
                self._reserved += 1
                place.set_result(None)

    async def _revive(self) -> Failure | None:
        """A first live connection, or why there is none: one attempt, for all that wait."""
        if self._closing:
            return _CLOSED
        attempt = next(iter(self._dialling)) if self._dialling else self._start_dialling()
        await asyncio.wait({attempt})
        if self._live:
            return None
        if attempt.cancelled():
            return _CLOSED
        found = attempt.result()
        return found if isinstance(found, Failure) else failure("connect", "cut")

    async def _revive_or_release(self) -> Failure | None:
        """The same for a caller with a place, which it keeps only if there is a connection."""
        try:
            failed = await self._revive()
        except BaseException:
            self.release()
            raise
        if failed is not None:
            self.release()
        return failed

    def _grow(self) -> None:
        """A connection for every send, up to the size; the first one alone."""
        if self._closing or len(self._live) >= self._size:
            return
        busy = len(self._live) - len(self._free)
        wanted = min(self._size, max(self._reserved, busy + len(self._queue)))
        if not self._live:
            wanted = min(1, len(self._queue))
        elif asyncio.get_running_loop().time() < self._grow_from_s:
            return
        for _ in range(wanted - len(self._live) - len(self._dialling)):
            self._start_dialling()

    def _start_dialling(self) -> asyncio.Task[Connection | Failure]:
        task = asyncio.get_running_loop().create_task(self._open())
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)
        return task

    async def _open(self) -> Connection | Failure:
        found = await self._dial()
        if isinstance(found, Failure):
            self._grow_from_s = asyncio.get_running_loop().time() + GROW_AGAIN_AFTER_S
            if not self._live and len(self._dialling) == 1:
                self._fail_queue(found)
            return found
        connection = Connection(found.transport, found.features, self._settings, self)
        self._live.add(connection)
        connection.serve()
        self._grow()
        return connection

    def _fail_queue(self, found: Failure) -> None:
        while (job := self.next_job()) is not None:
            job.settle(found)


_CLOSED = Failure("connection_lost", "retry", detail="the provider is closed")

"""A bounded number of connections, shared by everything that is being sent."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from homing.domain.failure import Failure
from homing.providers.smtp.classification import failure
from homing.providers.smtp.connection import Connection
from homing.providers.smtp.features import Features
from homing.providers.smtp.letter import Letter, fit
from homing.providers.smtp.opening import Session
from homing.providers.smtp.recent_success import RecentSuccess
from homing.providers.smtp.sending import Sending
from homing.providers.smtp.url import SmtpSettings

log = logging.getLogger("homing.smtp")

# How many sends may be prepared for each connection, and how long the last of them may have to
# wait there. A server that is slow, or not known yet, gets fewer: what waits in `prepare` has no
# durable mark yet, so that a crash leaves it in no doubt.
MAX_DEPTH = 8
MAX_QUEUED_S = 1.0
LATENCY_WEIGHT = 0.1
# After a further connection was refused, no other is opened for this long.
GROW_AGAIN_AFTER_S = 5.0
# How long a number of messages per connection is believed that no server has announced.
BELIEVED_FOR_S = 600.0
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
        self._queue: deque[Sending] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._reserved = 0
        self._to_flush: list[Connection] = []
        self._latency_s = MAX_QUEUED_S
        self._grow_from_s = 0.0
        self._messages_per_connection = settings.messages_per_connection
        self._closed_after = 0
        self._believed_until_s = 0.0
        self.is_closed = False
        self.success = RecentSuccess()

    async def reserve(self, most: int = 1) -> int | Failure:
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
        return 1 + further

    def release(self, places: int = 1) -> None:
        self._reserved -= places
        if self._waiting:
            self._admit()

    def fitting(self, letter: Letter) -> Features | Failure | None:
        """Those of a server that can take it; None: there is one that can take a part of it.

        Connections may lead to different servers.
        """
        found: Failure | None = _CLOSED
        for connection in self._live:
            fitted = fit(letter, connection.features)
            if fitted is letter:
                return connection.features
            found = fitted if found is not None and isinstance(fitted, Failure) else None
        return found

    def submit(self, sending: Sending) -> None:
        """Send it, now or when a connection is free."""
        self._queue.append(sending)
        self._dispatch()

    async def close(self) -> None:
        """Send QUIT to every server; sends under way may end within the grace."""
        self.is_closed = True
        for task in self._dialling:
            task.cancel()
        self._fail_queue(_CLOSED)
        closing = [connection.close(CLOSE_GRACE_S) for connection in self._live | self._leaving]
        await asyncio.gather(*closing, *self._dialling, return_exceptions=True)

    def next_for(self, features: Features) -> Sending | None:
        """The first that can go to a server with these features.

        One that would fare better on another connection is left to that one.
        """
        queue = self._queue
        found: Sending | None = None
        left: list[Sending] = []
        while queue and found is None:
            sending = queue.popleft()
            if sending.over:
                continue
            if sending.fits(features) or not self._fits_elsewhere(sending, features):
                found = sending
            else:
                left.append(sending)
        if left:
            queue.extendleft(reversed(left))
        return found

    def flush_soon(self, connection: Connection) -> None:
        # All of one turn of the loop are written in a row: a server that is awake anyway costs
        # far less to write to than one that must be woken for every message.
        if not self._to_flush:
            asyncio.get_running_loop().call_soon(self._flush)
        self._to_flush.append(connection)

    def give_back(self, sending: Sending) -> None:
        self._queue.appendleft(sending)
        # Later: the connection that gives it back may take it again at once.
        asyncio.get_running_loop().call_soon(self._dispatch)

    def closed_after(self, messages: int) -> None:
        """Twice the same number is believed; once may be a restart of the server."""
        if messages == self._closed_after:
            self._messages_per_connection = messages
            for connection in self._live:
                connection.keep_to(messages)
            self._believed_until_s = asyncio.get_running_loop().time() + BELIEVED_FOR_S
        self._closed_after = messages

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
        if self._queue:
            self._dispatch()
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
        if self.is_closed:
            self._fail_queue(_CLOSED)
            return
        for connection in reversed(self._free.copy()):
            if not self._queue:
                return
            if connection in self._free:  # serving one may have led to others being served
                self._free.remove(connection)
                connection.serve()
        if self._queue:
            self._grow()

    def _fits_elsewhere(self, sending: Sending, features: Features) -> bool:
        others = {connection.features for connection in self._live} - {features}
        return any(sending.fits(other) for other in others)

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
        while not self.is_closed:
            attempt = next(iter(self._dialling)) if self._dialling else self._start_dialling()
            await asyncio.wait({attempt})
            if self._live:
                return None
            if attempt.cancelled():
                return _CLOSED
            found = attempt.result()
            if isinstance(found, Failure):
                return found
            if not found.answered:
                return failure("connect", "cut")
            # It has served others, up to the number of messages that the server takes.
        return _CLOSED

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
        if self.is_closed or len(self._live) >= self._size:
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
        try:
            found = await self._dial()
        except Exception as error:
            # A bug. The sends in the queue must not wait for a connection that never comes.
            log.exception("smtp_connection_not_opened")
            found = Failure("connect_failed", "retry", detail=type(error).__name__)
        now_s = asyncio.get_running_loop().time()
        self._dialling -= {asyncio.current_task()}
        if isinstance(found, Failure):
            self._grow_from_s = now_s + GROW_AGAIN_AFTER_S
            if not self._live and not self._dialling:
                self._fail_queue(found)
            return found
        if now_s >= self._believed_until_s:
            self._messages_per_connection = self._settings.messages_per_connection
        most = self._messages_per_connection
        if found.features.max_messages:
            most = min(most, found.features.max_messages)
        # Equal features are one object, so that what fits to one connection is known to fit others.
        known = (other.features for other in self._live if other.features == found.features)
        features = next(known, found.features)
        connection = Connection(found.transport, features, self._settings, self, most)
        self._live.add(connection)
        connection.serve()
        self._grow()
        return connection

    def _fail_queue(self, found: Failure) -> None:
        while self._queue:
            self._queue.popleft().fail(found)


_CLOSED = Failure("connection_lost", "retry", detail="the provider is closed")

"""The session in which a process listens: notifications come in, and others see that it lasts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import psycopg

from homing.stores.sql.postgres.connection import Postgres, connect, cut, is_pooled
from homing.stores.sql.postgres.presence import PostgresPresence
from homing.stores.sql.statements import load

_SQL = load(__package__, "sessions.sql")
CHANNEL = "homing"
# Where no notification comes (behind a pooler, or while the server is away), look this often.
POLL_EVERY_S = 0.25
# How often sessions are looked at; a server that does not answer that is given up.
LOOK_EVERY_S = 1.0
ANSWER_S = 5.0
_AGAIN_AFTER_S = 0.3


class Listener:
    """Has a connection of its own, from the first wait on."""

    def __init__(self, url: str, tell: Callable[[], None], presence: PostgresPresence) -> None:
        self._url = url
        self._tell = tell
        self._presence = presence
        self._task: asyncio.Task[None] | None = None
        self._hears = False
        self._is_pooled = False

    def bounded(self, timeout_s: float) -> float:
        """How long a wait may rely on being told."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._listen())
        return timeout_s if self._hears else min(timeout_s, POLL_EVERY_S)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _listen(self) -> None:
        while not self._is_pooled:
            with contextlib.suppress(psycopg.Error, OSError):
                async with await connect(self._url) as connection:
                    await self._hear(connection)
            self._hears = False
            self._tell()  # a waiter relies on being told no longer
            await asyncio.sleep(_AGAIN_AFTER_S)

    async def _hear(self, connection: Postgres) -> None:
        if await is_pooled(connection):
            self._is_pooled = True  # notifications would go to another client, or be lost
            return
        loop = asyncio.get_running_loop()
        self._presence.sessions.begin(loop.time())
        connection.add_notify_handler(lambda _: self._tell())
        await connection.execute(f"listen {CHANNEL}")
        self._hears = True
        self._tell()  # what came before
        held: set[str] = set()
        while True:
            timer = loop.call_later(ANSWER_S, cut, connection)
            try:
                await self._look(connection, held)
            finally:
                timer.cancel()
            await self._wait(connection)

    async def _wait(self, connection: Postgres) -> None:
        """Until the next look. Not psycopg's `notifies`: to be woken by that takes a turn of the
        loop more, and ten timers a second."""
        loop = asyncio.get_running_loop()
        lost: asyncio.Future[None] = loop.create_future()
        server, socket = connection.pgconn, connection.fileno()

        def read() -> None:
            try:
                server.consume_input()
                while server.notifies() is not None:
                    self._tell()
            except psycopg.Error as error:
                if not lost.done():
                    lost.set_exception(error)

        timer = loop.call_later(LOOK_EVERY_S, _end, lost)
        loop.add_reader(socket, read)
        try:
            read()  # what has come in with an answer
            await lost
        finally:
            loop.remove_reader(socket)
            timer.cancel()

    async def _look(self, connection: Postgres, held: set[str]) -> None:
        presence = self._presence
        for holder in presence.holders - held:
            # The lock first: a noted holder without a lock is taken for dead.
            await connection.execute(_SQL["hold"], (holder,))
            await connection.execute(_SQL["note"], (holder,))
            held.add(holder)
        while presence.gone:
            holder = presence.gone.pop()
            await connection.execute(_SQL["forget"], (holder,))
        for holder in held - presence.holders:
            await connection.execute(_SQL["release"], (holder,))
            held.discard(holder)
        cursor = await connection.execute(_SQL["ended"])
        missing = [holder for (holder,) in await cursor.fetchall()]
        presence.sessions.see(missing, asyncio.get_running_loop().time())


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)

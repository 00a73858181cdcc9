"""Transactions for handlers, each with a fact written first, on connections of their own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from psycopg import AsyncConnection, AsyncCursor, OperationalError
from psycopg.pq import TransactionStatus

from homing.domain.delivery import Fact
from homing.stores.codec import encode
from homing.stores.sql.postgres.connection import connect
from homing.stores.sql.statements import load

_SQL = load(__package__, "once.sql")
# Each is a session of the server, whose number is limited.
MOST_CONNECTIONS = 8


class OnceTransactions:
    """At most `MOST_CONNECTIONS` at a time; further handlers wait for their turn."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._room = asyncio.Semaphore(MOST_CONNECTIONS)
        self._idle: list[AsyncConnection[Any]] = []

    @contextlib.asynccontextmanager
    async def begin(self, fact: Fact) -> AsyncIterator[AsyncConnection[Any] | None]:
        """None: the fact is stored already, and the block has nothing to do."""
        async with self._room:
            connection = await self._taken()
            try:
                async with connection.transaction():
                    given = (fact.kind, fact.key, fact.at_ms, encode(fact.value).decode())
                    written = await connection.execute(_SQL["put"], given)
                    yield connection if written.rowcount else None
            finally:
                if connection.info.transaction_status == TransactionStatus.IDLE:
                    self._idle.append(connection)
                else:  # it was lost, or is left in the middle of something
                    await connection.close()

    async def _taken(self) -> AsyncConnection[Any]:
        """One that still answers: the server may have ended it while it was idle."""
        while self._idle:
            connection = self._idle.pop()
            with contextlib.suppress(OperationalError):
                await connection.execute(b"")
                return connection
            await connection.close()
        return await self._connected()

    async def _connected(self) -> AsyncConnection[Any]:
        connection: AsyncConnection[Any] = await connect(self._url)
        # As a handler expects it: parameters are written `%s`.
        connection.cursor_factory = AsyncCursor
        connection.prepare_threshold = None  # behind a pooler nothing may be kept prepared
        return connection

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()

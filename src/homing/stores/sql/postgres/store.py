"""`PostgresStore`: the Store port over a PostgreSQL server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Collection, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from homing.domain.delivery import Fact
from homing.domain.errors import StoreError, StoreUnavailable
from homing.ports import Answers, Batch, Finding, Kind
from homing.runtime import forks
from homing.stores.sql import reading
from homing.stores.sql.asking import Steps
from homing.stores.sql.postgres import opening
from homing.stores.sql.postgres.committing import WRITERS, Committing
from homing.stores.sql.postgres.connection import SLOW_ANSWER_S, SLOW_LIMITS, Connection, connect
from homing.stores.sql.postgres.dialect import DIALECT, answer
from homing.stores.sql.postgres.faults import Meaning
from homing.stores.sql.postgres.listening import Listener
from homing.stores.sql.postgres.once import OnceTransactions
from homing.stores.sql.postgres.presence import PostgresPresence
from homing.stores.sql.postgres.purging import ADD_COUNTS_UP
from homing.stores.sql.postgres.url import parse_url
from homing.stores.sql.postgres.within import PostgresAsyncTransaction, PostgresTransaction
from homing.stores.sql.postgres.within_tables import OwnTables
from homing.stores.sql.store import Search, SqlStore
from homing.stores.store_signal import StoreSignal

T = TypeVar("T")


class PostgresStore(SqlStore):
    """Durable in a database, which the processes of many hosts may share.

    Use it from the event loop in which it was opened. A call that is cancelled may or may not have
    been stored.
    """

    _dialect = DIALECT

    def __init__(self, url: str, *, allows_weak_durability: bool = False) -> None:
        parsed = parse_url(url)
        self._url, self._server = parsed.url, parsed.shown
        self._meaning = Meaning(self._server)
        self._allows_weak_durability = allows_weak_durability or parsed.allows_weak_durability
        super().__init__()
        self._own_tables = OwnTables(
            self._url, self._server, allows_weak_durability=self._allows_weak_durability
        )
        self._be_closed()
        forks.forget_in_child(self)

    def _be_closed(self) -> None:
        self._news = StoreSignal()
        self._under_way: set[asyncio.Task[Any]] = set()
        self.presence = PostgresPresence()
        self._parts: _Parts | None = None

    _forget_parent = _be_closed

    async def open(self) -> None:
        if self._parts is not None:
            raise StoreUnavailable(f"{self._server}: the store is already open")
        with self._meaning:
            connection = await connect(self._url)
            async with connection:
                if not self._allows_weak_durability:
                    await opening.check_durability(connection)
                await opening.migrate(connection, self._plugin_files)
                self.presence.meet_in(await opening.database_id(connection))
        self._parts = _Parts(self._url, self._news, self.presence)

    async def close(self) -> None:
        """Requests that were made before are finished first."""
        parts, self._parts = self._parts, None
        if parts is not None:
            if self._under_way:
                await asyncio.wait(self._under_way)
            await parts.close()
            self._news.tell()

    async def findings(self) -> list[Finding]:
        try:
            with self._meaning:
                async with await connect(self._url) as connection:
                    return await opening.findings(
                        connection, allows_weak_durability=self._allows_weak_durability
                    )
        except StoreError as error:
            return [Finding("server", "bad", str(error))]

    async def pending_migrations(self) -> list[str]:
        with self._meaning:
            async with await connect(self._url) as connection:
                return await opening.pending_names(connection, self._plugin_files)

    def within(self, connection: object) -> PostgresTransaction:
        return PostgresTransaction(connection, self._own_tables)

    def within_async(self, connection: object) -> PostgresAsyncTransaction:
        return PostgresAsyncTransaction(connection, self._own_tables)

    @property
    def writers(self) -> tuple[frozenset[Kind], ...]:
        return WRITERS

    async def commit(self, batch: Batch) -> Answers:
        return await self._kept(self._open.committing.commit(batch))

    async def known_facts(self, kind: str, keys: Sequence[str]) -> Collection[str]:
        if self._open.committing.claimed_facts.has_none(kind, keys, time.monotonic()):
            return ()
        return await self._ask(reading.known_facts(self._dialect, kind, keys))

    def once(self, fact: Fact) -> AbstractAsyncContextManager[object | None]:
        return self._open.for_handlers.begin(fact)

    async def wait(self, timeout_s: float) -> None:
        """Commits of others are noticed at once where the server sends notifications, and behind a
        pooler within 250 ms."""
        await self._news.wait(self._open.listener.bounded(timeout_s))

    def _ask(self, steps: Steps[T]) -> Awaitable[T]:
        return self._kept(answer(self._open.reads, steps))

    async def _search(self, steps: Steps[T], search: Search) -> T:
        listings = self._open.listings
        if search == "counted":
            await self._kept(listings.run(ADD_COUNTS_UP, durable=False))
        return await self._kept(answer(listings, steps))

    async def _kept(self, work: Coroutine[Any, Any, T]) -> T:
        """A caller that gives up leaves the connection in order: the work goes on without it."""
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        with self._meaning:
            return await asyncio.shield(task)

    @property
    def _open(self) -> _Parts:
        if self._parts is None:
            raise StoreUnavailable(f"{self._server}: the store is not open")
        return self._parts


class _Parts:
    """What is there while the store is open. A connection is made when it is first used.

    Listings and counts may be slow: they have a connection of their own.
    """

    def __init__(self, url: str, news: StoreSignal, presence: PostgresPresence) -> None:
        self.committing = Committing(url, news)
        self.reads = Connection(url)
        self.listings = Connection(url, SLOW_LIMITS, SLOW_ANSWER_S)
        self.for_handlers = OnceTransactions(url)
        self.listener = Listener(url, news.tell, presence)

    async def close(self) -> None:
        await self.listener.close()
        await self.for_handlers.close()
        await self.committing.close()
        for connection in (self.reads, self.listings):
            await connection.close()

"""`PostgresStore`: the Store port over a PostgreSQL server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from homing.domain.delivery import Attempt, Content, Delivery, Fact, Key
from homing.domain.errors import StoreError, StoreUnavailable
from homing.domain.shown import Projection
from homing.ports import (
    Answers,
    Batch,
    Cursor,
    FactCursor,
    FactOrder,
    Finding,
    ForeignRow,
    GroupBy,
    Kind,
    Page,
    Query,
    Store,
)
from homing.runtime import forks
from homing.stores.sql.layouts import LayoutTables
from homing.stores.sql.plugin_files import PluginFile, files_of
from homing.stores.sql.postgres import listing, opening, reading
from homing.stores.sql.postgres.committing import WRITERS, Committing
from homing.stores.sql.postgres.connection import SLOW_ANSWER_S, SLOW_LIMITS, Connection, connect
from homing.stores.sql.postgres.faults import Meaning
from homing.stores.sql.postgres.layout_rows import there
from homing.stores.sql.postgres.listening import Listener
from homing.stores.sql.postgres.once import OnceTransactions, known_facts
from homing.stores.sql.postgres.presence import PostgresPresence
from homing.stores.sql.postgres.url import parse_url
from homing.stores.sql.postgres.within import PostgresAsyncTransaction, PostgresTransaction
from homing.stores.sql.postgres.within_tables import OwnTables
from homing.stores.store_signal import StoreSignal

T = TypeVar("T")


class PostgresStore(Store):
    """Durable in a database, which the processes of many hosts may share.

    Use it from the event loop in which it was opened. A call that is cancelled may or may not have
    been stored.
    """

    def __init__(self, url: str, *, allows_weak_durability: bool = False) -> None:
        parsed = parse_url(url)
        self._url, self._server = parsed.url, parsed.shown
        self._meaning = Meaning(self._server)
        self._allows_weak_durability = allows_weak_durability or parsed.allows_weak_durability
        self._plugin_files: list[PluginFile] = []
        self._projection: Projection | None = None
        self._layouts: LayoutTables | None = None
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
        self._layouts = await self._find_layouts()
        self._parts = _Parts(self._url, self._news, self.presence, self._layouts)

    async def close(self) -> None:
        """Requests that were made before are finished first."""
        parts, self._parts = self._parts, None
        if parts is not None:
            if self._under_way:
                await asyncio.wait(self._under_way)
            await parts.close()
            self._news.tell()

    def add_sql_files(self, plugin: str, package: str) -> None:
        self._plugin_files += files_of(plugin, package)

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
                own = await opening.pending_migrations(connection)
                files = await opening.pending_files(connection, self._plugin_files)
        names = [f"{each.number:04}_{each.name}" for each in own]
        return names + [f"{file.plugin}/{file.name}" for file in files]

    def show(self, projection: Projection) -> None:
        self._projection = projection

    async def foreign_rows(self, table: str, limit: int) -> list[ForeignRow]:
        return await self._kept(self._open.committing.foreign_rows(table, limit))

    async def settle_rows(
        self,
        table: str,
        rows: Sequence[ForeignRow],
        restored: Sequence[str] = (),
        replaced: Mapping[str, str] | None = None,
    ) -> None:
        settled = self._open.committing.settle_rows(table, rows, restored, replaced or {})
        await self._kept(settled)

    async def _find_layouts(self) -> LayoutTables | None:
        """Tables that the SQL files of a plugin have made, or that were there before."""
        projection = self._projection
        names = [] if projection is None else [table.name for table in projection.tables()]
        if projection is None or not names:
            return None
        connection = Connection(self._url)
        with self._meaning:
            found = await connection.run(there(names))
            await connection.close()
        return LayoutTables(projection, [name for (name,) in found]) if found else None

    def within(self, connection: object) -> PostgresTransaction:
        return PostgresTransaction(connection, self._own_tables, self._layouts)

    def within_async(self, connection: object) -> PostgresAsyncTransaction:
        return PostgresAsyncTransaction(connection, self._own_tables, self._layouts)

    @property
    def writers(self) -> tuple[frozenset[Kind], ...]:
        return WRITERS

    async def commit(self, batch: Batch) -> Answers:
        return await self._kept(self._open.committing.commit(batch))

    async def get(self, delivery_id: str) -> Delivery | None:
        [found] = await self.get_many([delivery_id])
        return found

    async def get_many(self, delivery_ids: Sequence[str]) -> list[Delivery | None]:
        return await self._read(reading.get_many, delivery_ids)

    async def content(self, delivery_id: str) -> Content | None:
        return await self._read(reading.content, delivery_id)

    async def find(self, source: str, key: str) -> Key | None:
        return await self._read(reading.find, source, key)

    async def attempts(self, delivery_id: str) -> list[Attempt]:
        [found] = await self.attempts_of_many([delivery_id])
        return found

    async def attempts_of_many(self, delivery_ids: Sequence[str]) -> list[list[Attempt]]:
        return await self._read(reading.attempts_of_many, delivery_ids)

    async def facts(
        self,
        kind: str,
        prefix: str = "",
        limit: int = 1000,
        *,
        after: FactCursor | None = None,
        order: FactOrder = "key",
    ) -> list[Fact]:
        return await self._read(reading.facts, kind, prefix, limit, after, order)

    async def known_facts(self, kind: str, keys: Sequence[str]) -> Collection[str]:
        if self._open.committing.claimed_facts.has_none(kind, keys, time.monotonic()):
            return ()
        return await self._read(known_facts, kind, keys)

    def once(self, fact: Fact) -> AbstractAsyncContextManager[object | None]:
        return self._open.for_handlers.begin(fact)

    async def next_due_ms(self, queues: Sequence[str]) -> int | None:
        return await self._read(reading.next_due_ms, queues)

    async def page(self, query: Query, cursor: Cursor | None = None, limit: int = 50) -> Page:
        return await self._kept(listing.page(self._open.listings, query, cursor, limit))

    async def page_within(
        self, query: Query, cursor: Cursor | None, limit: int, look_at: int
    ) -> Page:
        return await self._kept(
            listing.page_within(self._open.listings, query, cursor, limit, look_at)
        )

    async def count(self, query: Query, by: tuple[GroupBy, ...] = ()) -> dict[tuple[str, ...], int]:
        return await self._kept(reading.count(self._open.listings, query, by))

    async def count_up_to(
        self, query: Query, most: int, by: tuple[GroupBy, ...] = ()
    ) -> dict[tuple[str, ...], int]:
        return await self._kept(reading.count(self._open.listings, query, by, most))

    async def wait(self, timeout_s: float) -> None:
        """Commits of others are noticed at once where the server sends notifications, and behind a
        pooler within 250 ms."""
        await self._news.wait(self._open.listener.bounded(timeout_s))

    async def _read(self, question: Callable[..., Coroutine[Any, Any, T]], *given: Any) -> T:
        return await self._kept(question(self._open.reads, *given))

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

    def __init__(
        self,
        url: str,
        news: StoreSignal,
        presence: PostgresPresence,
        layouts: LayoutTables | None,
    ) -> None:
        self.committing = Committing(url, news, layouts)
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

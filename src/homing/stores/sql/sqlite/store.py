"""`SqliteStore`: the Store port over one file."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from homing.domain.delivery import Attempt, Content, Delivery, Fact, Key
from homing.domain.errors import StoreUnavailable
from homing.domain.shown import Projection
from homing.ports import (
    Answers,
    Batch,
    Claim,
    Claimed,
    Cursor,
    FactCursor,
    FactOrder,
    Finding,
    ForeignRow,
    GroupBy,
    Page,
    Query,
    Store,
)
from homing.runtime import forks
from homing.stores.host import ProcessLocks, WakePipes
from homing.stores.host.pipes import DUE, SOON
from homing.stores.sql.filters import is_counted
from homing.stores.sql.held import HeldRecords
from homing.stores.sql.layouts import LayoutTables
from homing.stores.sql.plugin_files import PluginFile, files_of
from homing.stores.sql.sqlite import checks, layout_rows, listing, reading
from homing.stores.sql.sqlite.claiming import Held, claimed_of
from homing.stores.sql.sqlite.faults import store_error
from homing.stores.sql.sqlite.looking import NOTHING, assume
from homing.stores.sql.sqlite.plugin_files import apply_files, pending_files
from homing.stores.sql.sqlite.reader import Reader
from homing.stores.sql.sqlite.views import read_view
from homing.stores.sql.sqlite.within import (
    SqliteAsyncTransaction,
    SqliteTransaction,
    join,
    join_async,
)
from homing.stores.sql.sqlite.writer import Writer
from homing.stores.store_signal import StoreSignal

BUSY_TIMEOUT_S = 5.0


class SqliteStore(Store):
    """Durable in one file; several processes may share it.

    Use it from the event loop in which it was opened. A call that is cancelled may or may not
    have been stored. Other connections of an application to the same file should set
    `wal_autocheckpoint = 0` while SQLite is older than 3.51.3 (see checkpoint.py); `within` sets
    it on the connections that it is given.
    """

    def __init__(self, path: str | Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.path = Path(path)
        self._busy_timeout_s = busy_timeout_s
        self._plugin_files: list[PluginFile] = []
        self._projection: Projection | None = None
        self._layouts: LayoutTables | None = None
        self._processes = self.path.with_name(self.path.name + ".processes")
        self._be_closed()
        forks.forget_in_child(self)

    def _be_closed(self) -> None:
        self._news = StoreSignal()
        self._held = HeldRecords()
        self._pipes = WakePipes(self._processes)
        self.presence = ProcessLocks(self._processes)
        self._threads: _Threads | None = None

    _forget_parent = _be_closed

    async def open(self) -> None:
        if self._threads is not None:
            raise StoreUnavailable(f"{self.path.name}: the store is already open")
        writer = Writer(
            self.path,
            self._busy_timeout_s,
            self._news.tell,
            self._wake_others,
            self.presence.running,
        )
        await writer.start()
        self._threads = _Threads(
            writer,
            *(Reader(self.path, self._busy_timeout_s) for _ in range(3)),
        )
        try:
            if self._plugin_files:
                given = (self.path, self._busy_timeout_s, self._plugin_files)
                await asyncio.to_thread(apply_files, *given)
            self._layouts = writer.layouts = await self._find_layouts()
        except BaseException:
            await self.close()
            raise

    def show(self, projection: Projection) -> None:
        self._projection = projection

    async def _find_layouts(self) -> LayoutTables | None:
        """Tables that the SQL files of a plugin have made, or that were there before."""
        projection = self._projection
        if projection is None or not projection.tables():
            return None
        given = (self.path, self._busy_timeout_s, projection.tables())
        found = await asyncio.to_thread(layout_rows.there, *given)
        return LayoutTables(projection, found) if found else None

    async def foreign_rows(self, table: str, limit: int) -> list[ForeignRow]:
        if self._layouts is None or table not in self._layouts:
            return []
        return await self._open.quick.ask(layout_rows.foreign_rows, self._layouts, table, limit)

    async def settle_rows(
        self,
        table: str,
        rows: Sequence[ForeignRow],
        restored: Sequence[str] = (),
        replaced: Mapping[str, str] | None = None,
    ) -> None:
        if self._layouts is not None:
            marks = {row.id: row.mark for row in rows}
            given = (self._layouts, table, marks, restored, replaced or {})
            path, busy_timeout_s = self.path, self._busy_timeout_s
            try:
                await asyncio.to_thread(layout_rows.settle, path, busy_timeout_s, *given)
            except sqlite3.Error as error:
                raise store_error(error, path) from error

    def add_sql_files(self, plugin: str, package: str) -> None:
        self._plugin_files += files_of(plugin, package)

    async def read_view(self, query: str, *given: object) -> list[dict[str, Any]]:
        return await read_view(self.path, query, given)

    async def close(self) -> None:
        """Requests that were made before are finished first."""
        threads, self._threads = self._threads, None
        if threads is not None:
            # Readers first: the log can be emptied only while no connection reads it.
            await threads.quick.stop()
            await threads.housekeeping.stop()
            await threads.slow.stop()
            await threads.writer.stop()
            self._pipes.close()
            with contextlib.suppress(OSError):  # others are in it
                self._processes.rmdir()
            self._news.tell()

    @property
    def journal_path(self) -> Path:
        """Beside the database, so that both are moved and backed up together."""
        return self.path.with_name(self.path.name + checks.JOURNAL)

    async def findings(self) -> list[Finding]:
        return await asyncio.to_thread(lambda: list(checks.findings(self.path)))

    async def pending_migrations(self) -> list[str]:
        own = await asyncio.to_thread(checks.pending_migrations, self.path)
        return own + await asyncio.to_thread(pending_files, self.path, self._plugin_files)

    def within(self, connection: object) -> SqliteTransaction:
        return join(connection, self.path, self._announce_commit, self._layouts)

    def within_async(self, connection: object) -> SqliteAsyncTransaction:
        return join_async(connection, self.path, self._announce_commit, self._layouts)

    async def commit(self, batch: Batch) -> Answers:
        writer = self._open.writer
        assumed = NOTHING
        if batch.puts:
            assumed = assume(batch.puts, self._held, looks_for_keys=writer.looks_for_keys)
        if batch.claims:
            self._news.look()
        done = await writer.submit(batch, assumed)
        claims = [
            self._claimed(claim, held)
            for claim, held in zip(batch.claims, done.claims, strict=True)
        ]
        if done.steps is None:
            return Answers((), done.renewals, done.purges, claims)
        judged = done.steps.plan.judged
        self._held.learn(judged.effects, done.steps.rows)
        return Answers(judged.answers, done.renewals, done.purges, claims)

    def _claimed(self, claim: Claim, held: Held) -> list[Claimed]:
        claimed: list[Claimed] = []
        for one, row in claimed_of(claim, held):
            self._held.remember(one.delivery, row)
            claimed.append(one)
        return claimed

    async def get(self, delivery_id: str) -> Delivery | None:
        return await self._open.quick.ask(reading.get, delivery_id)

    async def get_many(self, delivery_ids: Sequence[str]) -> list[Delivery | None]:
        return await self._open.quick.ask(reading.get_many, delivery_ids)

    async def content(self, delivery_id: str) -> Content | None:
        return await self._open.quick.ask(reading.content, delivery_id)

    async def find(self, source: str, key: str) -> Key | None:
        return await self._open.quick.ask(reading.find, source, key)

    async def attempts(self, delivery_id: str) -> list[Attempt]:
        return await self._open.quick.ask(reading.attempts, delivery_id)

    async def attempts_of_many(self, delivery_ids: Sequence[str]) -> list[list[Attempt]]:
        return await self._open.quick.ask(reading.attempts_of_many, delivery_ids)

    async def facts(
        self,
        kind: str,
        prefix: str = "",
        limit: int = 1000,
        *,
        after: FactCursor | None = None,
        order: FactOrder = "key",
    ) -> list[Fact]:
        return await self._open.quick.ask(reading.facts, kind, prefix, limit, after, order)

    async def next_due_ms(self, queues: Sequence[str]) -> int | None:
        return await self._open.quick.ask(reading.next_due_ms, queues)

    async def page(self, query: Query, cursor: Cursor | None = None, limit: int = 50) -> Page:
        return await self._reader(query).ask(listing.page, query, cursor, limit)

    async def page_within(
        self, query: Query, cursor: Cursor | None, limit: int, look_at: int
    ) -> Page:
        return await self._reader(query).ask(listing.page_within, query, cursor, limit, look_at)

    async def count(self, query: Query, by: tuple[GroupBy, ...] = ()) -> dict[tuple[str, ...], int]:
        reader = self._open.quick if is_counted(query, by) else self._reader(query)
        return await reader.ask(reading.count, query, by)

    async def count_up_to(
        self, query: Query, most: int, by: tuple[GroupBy, ...] = ()
    ) -> dict[tuple[str, ...], int]:
        reader = self._open.quick if is_counted(query, by) else self._reader(query)
        return await reader.ask(reading.count, query, by, most)

    def _reader(self, query: Query) -> Reader:
        """What housekeeping looks for does not wait behind the listings of people."""
        of_housekeeping = query.holder is not None or query.notices_due is not None
        return self._open.housekeeping if of_housekeeping else self._open.slow

    async def wait(self, timeout_s: float) -> None:
        """Commits of other Homing processes and of `within` are noticed within 5 ms, those of
        other programs within 250 ms."""
        writer = self._open.writer
        writer.listen(is_signalled=self._pipes.listen(self._receive))
        await self._news.wait(timeout_s)

    def _receive(self, signals: bytes) -> None:
        if SOON in signals and self._threads is not None:
            self._threads.writer.look_closely()
        if DUE in signals:
            self._news.tell()

    def _wake_others(self) -> None:
        self._pipes.send(DUE)

    def _announce_commit(self) -> None:
        self._pipes.send(SOON, to_own=True)

    @property
    def _open(self) -> _Threads:
        if self._threads is None:
            raise StoreUnavailable(f"{self.path.name}: the store is not open")
        return self._threads


class _Threads(Struct):
    """What runs while the store is open. Listings and counts may be slow: they have their own."""

    writer: Writer
    quick: Reader
    housekeeping: Reader
    slow: Reader

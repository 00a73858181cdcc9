"""`SqliteStore`: the Store port over one file."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from homing.domain.errors import StoreUnavailable
from homing.ports import (
    Answers,
    Batch,
    Claim,
    Claimed,
    Finding,
    PutAnswer,
)
from homing.runtime import forks
from homing.stores.host import ProcessLocks, WakePipes
from homing.stores.host.pipes import DUE, SOON
from homing.stores.sql.asking import Steps
from homing.stores.sql.held import HeldRecords
from homing.stores.sql.sqlite import checks
from homing.stores.sql.sqlite.claiming import Held, claimed_of
from homing.stores.sql.sqlite.connection import apply_files
from homing.stores.sql.sqlite.dialect import DIALECT, answer
from homing.stores.sql.sqlite.looking import NOTHING, assume
from homing.stores.sql.sqlite.reader import Reader
from homing.stores.sql.sqlite.views import read_view
from homing.stores.sql.sqlite.within import (
    SqliteAsyncTransaction,
    SqliteTransaction,
    join,
    join_async,
)
from homing.stores.sql.sqlite.writer import Writer
from homing.stores.sql.store import Search, SqlStore
from homing.stores.store_signal import StoreSignal

T = TypeVar("T")

BUSY_TIMEOUT_S = 5.0


class SqliteStore(SqlStore):
    """Durable in one file; several processes may share it.

    Use it from the event loop in which it was opened. A call that is cancelled may or may not
    have been stored. Other connections of an application to the same file should set
    `wal_autocheckpoint = 0` while SQLite is older than 3.51.3 (see checkpoint.py); `within` sets
    it on the connections that it is given.
    """

    _dialect = DIALECT

    def __init__(self, path: str | Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.path = Path(path)
        self._busy_timeout_s = busy_timeout_s
        super().__init__()
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
        if self._plugin_files:
            given = (self.path, self._busy_timeout_s, self._plugin_files)
            try:
                await asyncio.to_thread(apply_files, *given)
            except BaseException:
                await self.close()
                raise

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
        return await asyncio.to_thread(checks.pending_names, self.path, self._plugin_files)

    def within(self, connection: object) -> SqliteTransaction:
        return join(connection, self.path, self._announce_commit)

    def within_async(self, connection: object) -> SqliteAsyncTransaction:
        return join_async(connection, self.path, self._announce_commit)

    async def commit(self, batch: Batch) -> Answers:
        writer = self._open.writer
        assumed = NOTHING
        if batch.puts:
            assumed = assume(batch.puts, self._held, looks_for_keys=writer.looks_for_keys)
        if batch.claims:
            self._news.look()
        done = await writer.submit(batch, assumed)
        puts: Sequence[Sequence[PutAnswer]] = ()
        if done.steps is not None:
            judged = done.steps.plan.judged
            self._held.learn(judged.effects, done.steps.rows)
            puts = judged.answers
        # After the puts: a claim may take what they have made due.
        claims = [
            self._claimed(claim, held)
            for claim, held in zip(batch.claims, done.claims, strict=True)
        ]
        return Answers(puts, done.renewals, done.purges, claims)

    def _claimed(self, claim: Claim, held: Held) -> list[Claimed]:
        claimed: list[Claimed] = []
        for one, row in claimed_of(claim, held):
            self._held.remember(one.delivery, row)
            claimed.append(one)
        return claimed

    def _ask(self, steps: Steps[T]) -> Awaitable[T]:
        return self._open.quick.ask(answer, steps)

    def _search(self, steps: Steps[T], search: Search) -> Awaitable[T]:
        if search == "counted":
            return self._ask(steps)
        # What housekeeping looks for does not wait behind the listings of people.
        reader = self._open.housekeeping if search == "housekeeping" else self._open.slow
        return reader.ask(answer, steps)

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

"""`PostgresStore`: the Store port over a PostgreSQL server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from homing.domain.delivery import Change, Delivery, Fact, New
from homing.domain.errors import StoreError, StoreUnavailable
from homing.ports import (
    Added,
    Claim,
    Claimed,
    Existing,
    Finding,
    PurgeRule,
)
from homing.runtime import forks
from homing.stores.sql import reading
from homing.stores.sql.asking import Steps
from homing.stores.sql.columns import Row
from homing.stores.sql.postgres import opening
from homing.stores.sql.postgres.adding import AddRequest, add_request
from homing.stores.sql.postgres.adding_in_parts import AddInParts
from homing.stores.sql.postgres.changes import HeldRecords, SaveRequest, save_request
from homing.stores.sql.postgres.claimed_facts import ClaimedFacts
from homing.stores.sql.postgres.claiming import (
    claim_statement,
    claimed_of,
    in_order,
    renew_statement,
    results_statement,
    taken_of,
)
from homing.stores.sql.postgres.connection import SLOW_ANSWER_S, SLOW_LIMITS, Connection, connect
from homing.stores.sql.postgres.dialect import DIALECT, answer
from homing.stores.sql.postgres.executing import add_all, save_all
from homing.stores.sql.postgres.faults import Meaning
from homing.stores.sql.postgres.grouping import Groups
from homing.stores.sql.postgres.listening import Listener
from homing.stores.sql.postgres.low_water import LowWater
from homing.stores.sql.postgres.once import OnceTransactions
from homing.stores.sql.postgres.presence import PostgresPresence
from homing.stores.sql.postgres.purging import ADD_COUNTS_UP, purge
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
        self._held = HeldRecords()
        self._claimed_facts = ClaimedFacts()
        self._looks_at_keys = False
        self.presence = PostgresPresence()
        self._parts: _Parts | None = None

    forget_parent = _be_closed

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
        self._parts = _Parts(self._url, self._news.tell, self.presence, self._asked)

    async def close(self) -> None:
        """Requests that were made before are finished first."""
        parts, self._parts = self._parts, None
        if parts is not None:
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

    async def add(self, new: Sequence[New], facts: Sequence[Fact] = ()) -> list[Added | Existing]:
        return await self._add(add_request(new, facts))

    async def add_in_parts(self, parts: Iterable[Sequence[New]]) -> list[Added | Existing]:
        adding = AddInParts(parts)
        answers = None
        if not self._looks_at_keys:
            answers = await self._kept(adding.write(self._open.adding))
        if answers is None:
            answers = await self._add(adding.rest())
            # Who repeats keys does so again: the next add need not fail first.
            self._looks_at_keys = any(isinstance(answer, Existing) for answer in answers)
            return answers
        self._remember([one.delivery for one in adding.new], answers, wakes=adding.wakes)
        return answers

    async def _add(self, request: AddRequest) -> list[Added | Existing]:
        answers, wakes = await self._open.adds.submit(request)
        deliveries = [entry.write.delivery for entry in request.entries]
        self._remember(deliveries, answers, wakes=wakes)
        return answers

    def _remember(
        self, deliveries: Sequence[Delivery], answers: Sequence[Added | Existing], *, wakes: bool
    ) -> None:
        for delivery, added in zip(deliveries, answers, strict=True):
            # Stored already claimed: its outcome will be saved here.
            if delivery.state == "in_flight" and isinstance(added, Added):
                self._held.remember(delivery)
        if wakes:
            self._news.tell()

    async def claim(self, claim: Claim) -> list[Claimed]:
        self._news.look()
        if claim.limit <= 0 or not claim.queues:
            return []
        connection, low_water = self._open.claims, self._open.low_water
        looks_at_all = low_water.looks_at_all(claim)
        kind = self._claimed_facts.kind
        statement = claim_statement(claim, None if looks_at_all else low_water, kind)
        asked_at_s = time.monotonic()
        rows = await self._kept(connection.run(statement, durable=claim.durable))
        took_s = time.monotonic() - asked_at_s
        rows.sort(key=in_order)
        results: list[Row] = []
        reading_results = results_statement(rows)
        if reading_results is not None:
            results = await self._kept(connection.run(reading_results, durable=claim.durable))
        claimed = list(claimed_of(rows, results))
        low_water.learn(claim, taken_of(rows, claimed), took_s, looked_at_all=looks_at_all)
        if kind is not None:
            self._claimed_facts.see(rows, claimed, asked_at_s)
        for one in claimed:
            self._held.remember(one.delivery)
        return claimed

    async def renew(
        self, holder: str, held: Sequence[tuple[str, int]], lease_until_ms: int
    ) -> list[bool]:
        if not held:
            return []
        statement = renew_statement(holder, held, lease_until_ms)
        # A lease that was not renewed just ends earlier: that need not outlast a power cut.
        renewed = {*await self._kept(self._open.claims.run(statement, durable=False))}
        return [pair in renewed for pair in held]

    async def save(self, changes: Sequence[Change], facts: Sequence[Fact] = ()) -> list[bool]:
        request = save_request(changes, facts, self._held)
        wakes = await self._open.saves.submit(request)
        self._held.saved(request.entries)
        if wakes:
            self._news.tell()
        return [entry.kept for entry in request.entries]

    async def purge(self, rule: PurgeRule) -> int:
        async def purge_once() -> int:
            async with self._open.purges.transaction() as session:
                return await purge(session, rule)

        return await self._kept(purge_once())

    async def known_facts(self, kind: str, keys: Sequence[str]) -> Collection[str]:
        if self._claimed_facts.has_none(kind, keys, time.monotonic()):
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
        return await self._asked(asyncio.shield(asyncio.get_running_loop().create_task(work)))

    async def _asked(self, work: Awaitable[T]) -> T:
        with self._meaning:
            return await work

    @property
    def _open(self) -> _Parts:
        if self._parts is None:
            raise StoreUnavailable(f"{self._server}: the store is not open")
        return self._parts


class _Parts:
    """What is there while the store is open. A connection is made when it is first used.

    Claims, saves and adds do not wait for each other; listings and counts may be slow.
    """

    def __init__(
        self,
        url: str,
        tell: Callable[[], None],
        presence: PostgresPresence,
        asked: Callable[[Awaitable[Any]], Awaitable[Any]],
    ) -> None:
        """`asked` turns the server's errors into those of stores."""
        self.claims = Connection(url)
        self.low_water = LowWater(time.monotonic)
        self.reads = Connection(url)
        self.purges = Connection(url)
        self.listings = Connection(url, SLOW_LIMITS, SLOW_ANSWER_S)
        self.adding = Connection(url)
        self._saving = Connection(url)
        self.for_handlers = OnceTransactions(url)
        self.listener = Listener(url, tell, presence)
        self.adds: Groups[AddRequest, tuple[list[Added | Existing], bool]] = Groups(
            lambda requests: asked(add_all(self.adding, requests)), lambda one: len(one.entries)
        )
        self.saves: Groups[SaveRequest, bool] = Groups(
            lambda requests: asked(save_all(self._saving, requests)), lambda one: len(one.entries)
        )

    async def close(self) -> None:
        await self.adds.finish()
        await self.saves.finish()
        await self.listener.close()
        await self.for_handlers.close()
        for connection in (
            self.claims,
            self.reads,
            self.purges,
            self.listings,
            self.adding,
            self._saving,
        ):
            await connection.close()

"""Executes batches: each kind of requests on a connection of its own, or all in one transaction."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from homing.ports import (
    Answers,
    Batch,
    Claim,
    Claimed,
    ForeignRow,
    Kind,
    PurgeRule,
    Put,
    PutAnswer,
    Renewal,
)
from homing.stores.sql.columns import Row
from homing.stores.sql.held import HeldRecords
from homing.stores.sql.layouts import LayoutTables
from homing.stores.sql.postgres.claimed_facts import ClaimedFacts
from homing.stores.sql.postgres.claiming import (
    claim_statement,
    claimed_of,
    in_order,
    renew_statement,
    results_statement,
    taken_of,
)
from homing.stores.sql.postgres.connection import Connection
from homing.stores.sql.postgres.executing import Putting, Repeating, Stored, exactly, put_within
from homing.stores.sql.postgres.layout_rows import (
    foreign_rows,
    replace_row,
    settle,
    show_claimed,
)
from homing.stores.sql.postgres.low_water import LowWater
from homing.stores.sql.postgres.purging import purge
from homing.stores.sql.postgres.statement import Statement, run_async
from homing.stores.store_signal import StoreSignal

_Run: TypeAlias = Callable[[Statement], Awaitable[list[Row]]]

WRITERS: tuple[frozenset[Kind], ...] = (
    frozenset({"add"}),
    frozenset({"save", "renew"}),
    frozenset({"purge"}),
    frozenset({"claim"}),
)
"""Adds, saves, purges and claims do not wait for each other."""


class Committing:
    def __init__(self, url: str, news: StoreSignal, layouts: LayoutTables | None = None) -> None:
        self.adds = Putting(Connection(url), layouts)
        self.saves = Putting(Connection(url), layouts)
        self.purges = Connection(url)
        self.claims = Connection(url)
        self.adoptions = Connection(url)
        self.held = HeldRecords()
        self.claimed_facts = ClaimedFacts()
        self._low_water = LowWater(time.monotonic)
        self._news = news
        self._layouts = layouts

    async def close(self) -> None:
        for connection in (
            self.adds.connection,
            self.saves.connection,
            self.purges,
            self.claims,
            self.adoptions,
        ):
            await connection.close()

    async def commit(self, batch: Batch) -> Answers:
        puts, others = batch.puts, [*batch.renewals, *batch.purges, *batch.claims]
        if not others:
            putting = self.adds if all(map(_is_add, puts)) else self.saves
            return Answers(self._learn(puts, await putting.put(puts, self.held.records)))
        if puts or len(others) > 1:
            async with self.saves.turn:
                return await Repeating().run(partial(self._transact, batch), again_if_lost=False)
        return Answers(
            renewals=[await self._renew_alone(renewal) for renewal in batch.renewals],
            purges=[await self._purge_alone(rule) for rule in batch.purges],
            claims=[await self._claim_alone(claim) for claim in batch.claims],
        )

    async def _transact(self, batch: Batch) -> Answers:
        async with exactly(self.saves.connection) as session:
            stored = await put_within(session.run, batch.puts, self._layouts)
            renewals = [await _renew(session.run, renewal) for renewal in batch.renewals]
            purges = [await purge(session, rule, self._layouts) for rule in batch.purges]
            claims = [await self._claim(session.run, claim) for claim in batch.claims]
        return Answers(self._learn(batch.puts, stored), renewals, purges, claims)

    def _learn(self, puts: Sequence[Put], stored: Stored) -> Sequence[Sequence[PutAnswer]]:
        for put in puts:
            for write in put.writes:
                if write.over is not None and write.delivery.id not in stored.effects:
                    self.held.forget(write.delivery.id)
        self.held.learn(stored.effects)
        if stored.wakes:
            self._news.tell()
        return stored.answers

    async def _renew_alone(self, renewal: Renewal) -> list[bool]:
        """A lease that was not renewed just ends earlier: that need not outlast a power cut."""
        return await _renew(partial(self.claims.run, durable=False), renewal)

    async def _purge_alone(self, rule: PurgeRule) -> int:
        async with self.purges.transaction() as session:
            return await purge(session, rule, self._layouts)

    async def foreign_rows(self, table: str, limit: int) -> list[ForeignRow]:
        if self._layouts is None or table not in self._layouts:
            return []
        read = partial(foreign_rows, self._layouts, table, limit)
        return await Repeating().run(lambda: run_async(read(), self.adoptions.run))

    async def settle_rows(
        self,
        table: str,
        rows: Sequence[ForeignRow],
        restored: Sequence[str],
        replaced: Mapping[str, str],
    ) -> None:
        if self._layouts is None:
            return
        layouts, marks = self._layouts, {row.id: row.mark for row in rows}

        async def transact() -> None:
            async with self.adoptions.transaction() as session:
                for gone, there in replaced.items():
                    await run_async(replace_row(layouts, table, gone, there), session.run)
                await run_async(settle(layouts, table, marks, restored), session.run)

        await Repeating().run(transact)

    async def _claim_alone(self, claim: Claim) -> list[Claimed]:
        if self._layouts is not None and self._layouts.has_rows(claim.queues):
            async with self.claims.transaction(durable=claim.durable) as session:
                return await self._claim(session.run, claim)
        return await self._claim(partial(self.claims.run, durable=claim.durable), claim)

    async def _claim(self, run: _Run, claim: Claim) -> list[Claimed]:
        self._news.look()
        if claim.limit <= 0 or not claim.queues:
            return []
        low_water = self._low_water
        looks_at_all = low_water.looks_at_all(claim)
        kind = self.claimed_facts.kind
        statement = claim_statement(claim, None if looks_at_all else low_water, kind)
        asked_at_s = time.monotonic()
        rows = await run(statement)
        took_s = time.monotonic() - asked_at_s
        rows.sort(key=in_order)
        reading_results = results_statement(rows)
        results = [] if reading_results is None else await run(reading_results)
        claimed = list(claimed_of(rows, results))
        low_water.learn(claim, taken_of(rows, claimed), took_s, looked_at_all=looks_at_all)
        if kind is not None:
            self.claimed_facts.see(rows, claimed, asked_at_s)
        if self._layouts is not None and claimed:
            shown = [(one.delivery, one.content) for one in claimed]
            await run_async(show_claimed(self._layouts, shown), run)
        for one in claimed:
            self.held.remember(one.delivery)
        return claimed


async def _renew(run: _Run, renewal: Renewal) -> list[bool]:
    renewed = {*await run(renew_statement(renewal))} if renewal.held else ()
    return [pair in renewed for pair in renewal.held]


def _is_add(put: Put) -> bool:
    return all(write.over is None for write in put.writes)

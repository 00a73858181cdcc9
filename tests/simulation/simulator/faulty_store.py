"""The store as a process sees it when things go wrong, over one disk that all share.

Before the write: refused, nothing stored. After the write: stored, but the answer is lost. In
between and around it: delays, in which the process may be frozen or killed. While the disk is
full, writes alone fail. All of it is decided here; the reference store itself is never wrong.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from homing.domain.delivery import Attempt, Change, Content, Delivery, Fact, Key, New
from homing.domain.errors import StoreFull, StoreOutcomeUnknown, StoreUnavailable
from homing.ports import Added, Claim, Claimed, Cursor, Existing, GroupBy, Page, PurgeRule, Query
from homing.stores.memory import MemoryStore
from tests.simulation.simulator.hosts import SimProcess
from tests.simulation.simulator.options import Options
from tests.simulation.simulator.trace import Trace
from tests.simulation.simulator.watched_disk import Operation, WatchedDisk


class StoreConditions:
    """What the stores of all processes suffer at the moment."""

    def __init__(self, options: Options, rng: random.Random, fault: Callable[[str], None]) -> None:
        self.options = options
        self.rng = rng
        self.fault = fault
        self.faults_on = True
        self.is_full = False


class FaultyStore:
    """One process's handle on the shared disk."""

    def __init__(
        self, disk: WatchedDisk, process: SimProcess, conditions: StoreConditions, trace: Trace
    ) -> None:
        self._disk = disk
        self._inner = MemoryStore(disk)
        self._life = process
        self._conditions = conditions
        self._trace = trace
        self._roll = conditions.rng.random

    async def open(self) -> None:
        await self._inner.open()

    async def close(self) -> None:
        await self._inner.close()

    async def add(self, new: Sequence[New], facts: Sequence[Fact] = ()) -> list[Added | Existing]:
        operation = Operation(self._life, "add")
        await self._before("add", writes=True)
        self._disk.operation = operation
        answers = await self._inner.add(new, facts)
        note, holder = self._trace.note, self._life.holder
        for one, answer in zip(new, answers, strict=True):
            added = isinstance(answer, Added)
            note(holder, "add", answer.delivery_id, one.delivery.state, added)
        await self._after("add")
        return answers

    async def claim(self, claim: Claim) -> list[Claimed]:
        operation = Operation(self._life, "claim")
        await self._before("claim", writes=True)
        self._disk.operation = operation
        claimed = await self._inner.claim(claim)
        note, holder = self._trace.note, self._life.holder
        for one in claimed:
            note(
                holder,
                "claim",
                one.delivery.id,
                one.delivery.version,
                one.delivery.unsettled_claims,
            )
        await self._after("claim")
        return claimed

    async def renew(
        self, holder: str, held: Sequence[tuple[str, int]], lease_until_ms: int
    ) -> list[bool]:
        operation = Operation(self._life, "renew")
        await self._before("renew", writes=True)
        self._disk.operation = operation
        renewed = await self._inner.renew(holder, held, lease_until_ms)
        self._trace.note(self._life.holder, "renew", len(held), sum(renewed))
        await self._after("renew")
        return renewed

    async def save(self, changes: Sequence[Change], facts: Sequence[Fact] = ()) -> list[bool]:
        operation = Operation(self._life, "save", changes)
        await self._before("save", writes=True)
        self._disk.operation = operation
        saved = await self._inner.save(changes, facts)
        note, holder = self._trace.note, self._life.holder
        for change, kept in zip(changes, saved, strict=True):
            after = change.delivery
            note(holder, "save", after.id, after.version, after.state, after.failed_because, kept)
        for fact in facts:
            note(holder, "fact", fact.kind, fact.key, fact.value is not None)
        await self._after("save")
        return saved

    async def get(self, delivery_id: str) -> Delivery | None:
        await self._before("get")
        return await self._inner.get(delivery_id)

    async def content(self, delivery_id: str) -> Content | None:
        await self._before("content")
        return await self._inner.content(delivery_id)

    async def find(self, source: str, key: str) -> Key | None:
        await self._before("find")
        return await self._inner.find(source, key)

    async def page(self, query: Query, cursor: Cursor | None = None, limit: int = 50) -> Page:
        await self._before("page")
        return await self._inner.page(query, cursor, limit)

    async def count(self, query: Query, by: tuple[GroupBy, ...] = ()) -> dict[tuple[str, ...], int]:
        await self._before("count")
        return await self._inner.count(query, by)

    async def attempts(self, delivery_id: str) -> list[Attempt]:
        await self._before("attempts")
        return await self._inner.attempts(delivery_id)

    async def facts(self, kind: str, prefix: str = "", limit: int = 1000) -> list[Fact]:
        await self._before("facts")
        return await self._inner.facts(kind, prefix, limit)

    async def purge(self, rule: PurgeRule) -> int:
        operation = Operation(self._life, "purge")
        await self._before("purge", writes=True)
        self._disk.operation = operation
        return await self._inner.purge(rule)

    async def next_due_ms(self, lanes: Sequence[str]) -> int | None:
        await self._before("next_due_ms")
        return await self._inner.next_due_ms(lanes)

    async def wait(self, timeout_s: float) -> None:
        await self._inner.wait(timeout_s)

    async def _before(self, name: str, *, writes: bool = False) -> None:
        conditions, roll = self._conditions, self._roll
        if not conditions.faults_on:
            return
        options = conditions.options
        if roll() < options.delay_share:
            await asyncio.sleep(roll() * options.delay_s)
        if writes and conditions.is_full:
            conditions.fault("store_full")
            raise StoreFull("no room on the disk")
        if options.store_refused and roll() < options.store_refused:
            conditions.fault("store_refused")
            self._trace.note(self._life.holder, "refused", name)
            raise StoreUnavailable("the store is not reachable")
        if not writes and options.store_surprise and roll() < options.store_surprise:
            conditions.fault("store_surprise")
            raise OSError("something that no store should raise")

    async def _after(self, name: str) -> None:
        self._disk.operation = None
        conditions, roll = self._conditions, self._roll
        if not conditions.faults_on:
            return
        options = conditions.options
        if roll() < options.delay_share:
            await asyncio.sleep(roll() * options.delay_s)
        if options.store_unknown and roll() < options.store_unknown:
            conditions.fault("store_unknown")
            self._trace.note(self._life.holder, "unknown", name)
            raise StoreOutcomeUnknown("the answer was lost after the write")

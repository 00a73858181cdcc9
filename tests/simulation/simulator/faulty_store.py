"""The store as one process sees it when things go wrong, over one disk that all share.

Before the write: refused, nothing stored; or the answer is lost and nothing was stored. After the
write: stored, but the answer is lost. In between and around it: delays, in which the process may
be frozen or killed. While the disk is full, writes alone fail. All of it is decided here; the
store underneath is a real one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from homing.domain.delivery import Attempt, Content, Delivery, Fact, Key
from homing.domain.errors import StoreFull, StoreOutcomeUnknown, StoreUnavailable
from homing.ports import (
    Added,
    Answers,
    Batch,
    Cursor,
    GroupBy,
    Page,
    Query,
    Store,
)
from tests.simulation.simulator.hosts import SimProcess
from tests.simulation.simulator.key_checks import KeyChecks
from tests.simulation.simulator.options import Options
from tests.simulation.simulator.presence import MachineLocks, SimPresence
from tests.simulation.simulator.send_checks import SendChecks
from tests.simulation.simulator.trace import Trace
from tests.simulation.simulator.watched_disk import Operation, WatchedDisk

# From here on the engine works in batches; a run that never gets there proves nothing about them.
MANY = 64


class StoreConditions:
    """What the stores of all processes suffer at the moment."""

    def __init__(self, options: Options, rng: random.Random, fault: Callable[[str], None]) -> None:
        self.options = options
        self.rng = rng
        self.fault = fault
        self.faults_on = True
        self.is_full = False


class Watchers:
    """Who is shown what the stores do."""

    def __init__(
        self,
        disk: WatchedDisk,
        trace: Trace,
        keys: KeyChecks,
        sends: SendChecks,
        reached: Callable[[str], None],
    ) -> None:
        self.disk = disk
        self.trace = trace
        self.keys = keys
        self.sends = sends
        self.reached = reached


class FaultyStore(Store):
    """One process's handle on the shared disk."""

    def __init__(
        self, inner: Store, process: SimProcess, conditions: StoreConditions, watch: Watchers
    ) -> None:
        self._inner = inner
        self._process = process
        self._conditions = conditions
        self._watch = watch
        self._roll = conditions.rng.random

    async def open(self) -> None:
        """The world has opened it."""

    async def close(self) -> None:
        """The world closes it when the process ends."""

    async def commit(self, batch: Batch) -> Answers:
        name = "/".join(dict.fromkeys([*[put.kind for put in batch.puts], *_parts(batch)]))
        operation = Operation(self._process)
        await self._before(name, writes=True)
        disk = self._watch.disk
        keys = dict(disk.keys) if any(rule.what == "keys" for rule in batch.purges) else {}
        disk.operation = operation
        try:
            answers = await self._inner.commit(batch)
        finally:
            disk.operation = None
        self._note_puts(operation, batch, answers)
        self._note_rest(operation, batch, answers)
        if batch.purges:
            self._watch.keys.purged(keys, max(rule.before_ms for rule in batch.purges))
        # Until it is answered, this process cannot know that these are its own.
        self._process.unanswered |= operation.takes
        try:
            await self._after(name)
        finally:
            self._process.unanswered -= operation.takes
        return answers

    def _note_puts(self, operation: Operation, batch: Batch, answers: Answers) -> None:
        marks = 0
        for put, got in zip(batch.puts, answers.puts, strict=True):
            for write, answer in zip(put.writes, got, strict=True):
                after = write.delivery
                if isinstance(answer, bool):
                    words = after.version, after.state, after.failed_because, answer
                    self._note("save", after.id, *words)
                    marks += after.committing and not write.attempts
                    if write.attempts:
                        self._watch.sends.save_was_executed(self._process.holder, after.id)
                else:
                    added = isinstance(answer, Added)
                    self._note("add", answer.delivery_id, after.state, added)
                    self._watch.keys.asked(write, answer)
                    if after.holder is not None:
                        operation.takes.add(after.id)
            for fact in put.facts:
                self._note("fact", fact.kind, fact.key, fact.value is not None)
        if marks:
            self._watch.sends.marked(self._process)
        if marks >= MANY:
            self._watch.reached(f"marks_of_{MANY}")

    def _note_rest(self, operation: Operation, batch: Batch, answers: Answers) -> None:
        for renewal, renewed in zip(batch.renewals, answers.renewals, strict=True):
            self._note("renew", len(renewal.held), sum(renewed))
        for rule, purged in zip(batch.purges, answers.purges, strict=True):
            if purged:
                self._note("purge", rule.what, rule.route, purged)
                self._watch.reached(f"purged_{rule.what}")
        for claimed in answers.claims:
            for delivery in [one.delivery for one in claimed]:
                self._note("claim", delivery.id, delivery.version, delivery.unsettled_claims)
                operation.takes.add(delivery.id)
            if len(claimed) >= MANY:
                self._watch.reached(f"claims_of_{MANY}_on_{claimed[0].delivery.route}")

    async def get(self, delivery_id: str) -> Delivery | None:
        await self._before("get")
        return await self._inner.get(delivery_id)

    async def get_many(self, delivery_ids: Sequence[str]) -> list[Delivery | None]:
        await self._before("get")
        return await self._inner.get_many(delivery_ids)

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

    async def attempts_of_many(self, delivery_ids: Sequence[str]) -> list[list[Attempt]]:
        await self._before("attempts")
        return await self._inner.attempts_of_many(delivery_ids)

    async def facts(
        self, kind: str, prefix: str = "", limit: int = 1000, **more: Any
    ) -> list[Fact]:
        await self._before("facts")
        return await self._inner.facts(kind, prefix, limit, **more)

    async def next_due_ms(self, queues: Sequence[str]) -> int | None:
        await self._before("next_due_ms")
        return await self._inner.next_due_ms(queues)

    async def wait(self, timeout_s: float) -> None:
        await self._inner.wait(timeout_s)

    def _note(self, what: str, *words: str | int | bool | None) -> None:
        self._watch.trace.note(self._process.holder, what, *words)

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
            self._note("refused", name)
            raise StoreUnavailable("the store is not reachable")
        if writes and options.store_unknown_lost and roll() < options.store_unknown_lost:
            conditions.fault("store_unknown_lost")
            self._note("unknown, not stored", name)
            raise StoreOutcomeUnknown("the connection broke before the write")
        if not writes and options.store_surprise and roll() < options.store_surprise:
            conditions.fault("store_surprise")
            raise OSError("something that no store should raise")

    async def _after(self, name: str) -> None:
        conditions, roll = self._conditions, self._roll
        if not conditions.faults_on:
            return
        options = conditions.options
        if roll() < options.delay_share:
            await asyncio.sleep(roll() * options.delay_s)
        if options.store_unknown and roll() < options.store_unknown:
            conditions.fault("store_unknown")
            self._note("unknown", name)
            raise StoreOutcomeUnknown("the answer was lost after the write")


def _parts(batch: Batch) -> list[str]:
    parts = {"renew": batch.renewals, "purge": batch.purges, "claim": batch.claims}
    return [name for name, requests in parts.items() if requests]


class FaultyStoreOnHost(FaultyStore):
    """One whose processes on one machine can prove each other's death."""

    def __init__(
        self,
        inner: Store,
        process: SimProcess,
        conditions: StoreConditions,
        watch: Watchers,
        locks: MachineLocks,
    ) -> None:
        super().__init__(inner, process, conditions, watch)
        self.presence = SimPresence(locks, process.holder)

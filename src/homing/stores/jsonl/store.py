"""`JsonlStore`: the Store port over a queue file and a folder beside it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from homing.domain.delivery import Attempt, Change, Content, Delivery, Fact, Key, New
from homing.domain.errors import StoreUnavailable
from homing.domain.shown import Projection
from homing.domain.writes import Write, write_of_change, write_of_new
from homing.ports import (
    AcceptedLog,
    Added,
    Claim,
    Claimed,
    Cursor,
    Existing,
    FactCursor,
    FactOrder,
    Finding,
    ForeignLine,
    GroupBy,
    Page,
    PurgeRule,
    Query,
)
from homing.runtime import forks
from homing.stores.host import ProcessLocks, WakePipes
from homing.stores.host.pipes import DUE
from homing.stores.jsonl.checks import EMERGENCY, findings
from homing.stores.jsonl.index import LogIndex
from homing.stores.jsonl.locking import LOCK_WITHIN_S
from homing.stores.jsonl.log import Log, folder_of
from homing.stores.jsonl.thread import StoreThread
from homing.stores.memory import reading
from homing.stores.memory.claiming import claim_due, renew_all
from homing.stores.memory.purging import purge
from homing.stores.memory.writing import add_one, save_one
from homing.stores.store_signal import StoreSignal


class JsonlStore:
    """Durable in plain files; several processes of one host may share it.

    Use it from the event loop in which it was opened. A call that is cancelled may or may not
    have been stored.
    """

    def __init__(self, path: str | Path, *, lock_within_s: float = LOCK_WITHIN_S) -> None:
        self.path = Path(path)
        self._lock_within_s = lock_within_s
        self._projection: Projection | None = None
        self._accepted: AcceptedLog | None = None
        self._processes = folder_of(self.path) / "processes"
        self._be_closed()
        forks.forget_in_child(self)

    def _be_closed(self) -> None:
        self._news = StoreSignal()
        self._pipes = WakePipes(self._processes)
        self.presence = ProcessLocks(self._processes)
        self._thread: StoreThread | None = None

    _forget_parent = _be_closed

    def show(self, projection: Projection) -> None:
        self._projection = projection

    def ask(self, log: AcceptedLog) -> None:
        self._accepted = log

    async def compact(self) -> tuple[int, int]:
        answer: tuple[int, int] = await self._open.submit(Log.compact, "maintenance")
        return answer

    async def foreign_lines(self) -> list[ForeignLine]:
        answer: list[ForeignLine] = await self._read(lambda index: index.foreign_lines())
        return answer

    async def open(self) -> None:
        if self._thread is not None:
            raise StoreUnavailable(f"{self.path.name}: the store is already open")
        thread = StoreThread(
            self.path,
            lambda: Log(self.path, self._projection),
            self._lock_within_s,
            self._news.tell,
            lambda: self._pipes.send(DUE),
        )
        await thread.start()
        self._thread = thread

    async def close(self) -> None:
        """Requests that were made before are finished first."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await thread.stop()
            self._pipes.close()
            with contextlib.suppress(OSError):  # others are in it
                self._processes.rmdir()
            self._news.tell()

    @property
    def journal_path(self) -> Path:
        """Beside the queue, so that all is moved and backed up together."""
        return folder_of(self.path) / EMERGENCY

    async def findings(self) -> list[Finding]:
        return await asyncio.to_thread(lambda: list(findings(self.path)))

    async def add(self, new: Sequence[New], facts: Sequence[Fact] = ()) -> list[Added | Existing]:
        writes = [write_of_new(one) for one in new]
        answer: list[Added | Existing] = await self._change(
            lambda index: self._added(index, writes, facts), size=len(new)
        )
        return answer

    async def save(self, changes: Sequence[Change], facts: Sequence[Fact] = ()) -> list[bool]:
        writes = [write_of_change(change) for change in changes]
        answer: list[bool] = await self._change(
            lambda index: _executed(index, save_one, writes, facts), size=len(changes)
        )
        return answer

    async def claim(self, claim: Claim) -> list[Claimed]:
        self._news.look()
        if claim.limit <= 0:
            return []
        answer: list[Claimed] = await self._change(
            lambda index: self._claimed(index, claim), size=claim.limit, durable=claim.durable
        )
        return answer

    def _added(
        self, index: LogIndex, writes: Sequence[Write], facts: Sequence[Fact]
    ) -> list[Added | Existing]:
        answers: list[Added | Existing] = _executed(index, add_one, writes, facts)
        if self._accepted is None:
            return answers
        return [
            Added(answer.delivery_id, self._accepted.receipt_of(write.delivery))
            if isinstance(answer, Added) and write.delivery.state == "in_flight"
            else answer
            for write, answer in zip(writes, answers, strict=True)
        ]

    def _claimed(self, index: LogIndex, claim: Claim) -> list[Claimed]:
        claimed = claim_due(index, claim)
        if self._accepted is None:
            return claimed
        accepted = self._accepted
        return [replace(one, receipt=accepted.receipt_of(one.delivery)) for one in claimed]

    async def renew(
        self, holder: str, held: Sequence[tuple[str, int]], lease_until_ms: int
    ) -> list[bool]:
        answer: list[bool] = await self._change(
            lambda index: renew_all(index, holder, held, lease_until_ms),
            size=len(held),
            # A lease that a power cut makes shorter ends earlier, and that is all.
            durable=False,
        )
        return answer

    async def purge(self, rule: PurgeRule) -> int:
        answer: int = await self._change(lambda index: purge(index, rule), size=rule.limit)
        return answer

    async def get(self, delivery_id: str) -> Delivery | None:
        return (await self.get_many([delivery_id]))[0]

    async def get_many(self, delivery_ids: Sequence[str]) -> list[Delivery | None]:
        answer: list[Delivery | None] = await self._read(
            lambda index: reading.get_many(index, delivery_ids)
        )
        return answer

    async def content(self, delivery_id: str) -> Content | None:
        answer: Content | None = await self._read(lambda index: index.contents.get(delivery_id))
        return answer

    async def find(self, source: str, key: str) -> Key | None:
        answer: Key | None = await self._read(lambda index: index.keys.get((source, key)))
        return answer

    async def attempts(self, delivery_id: str) -> list[Attempt]:
        answer: list[Attempt] = await self._read(lambda index: reading.attempts(index, delivery_id))
        return answer

    async def facts(
        self,
        kind: str,
        prefix: str = "",
        limit: int = 1000,
        *,
        after: FactCursor | None = None,
        order: FactOrder = "key",
    ) -> list[Fact]:
        answer: list[Fact] = await self._read(
            lambda index: reading.facts(index, kind, prefix, limit, after, order)
        )
        return answer

    async def page(self, query: Query, cursor: Cursor | None = None, limit: int = 50) -> Page:
        answer: Page = await self._read(lambda index: reading.page(index, query, cursor, limit))
        return answer

    async def count(self, query: Query, by: tuple[GroupBy, ...] = ()) -> dict[tuple[str, ...], int]:
        answer: dict[tuple[str, ...], int] = await self._read(
            lambda index: reading.count(index, query, by)
        )
        return answer

    async def next_due_ms(self, queues: Sequence[str]) -> int | None:
        answer: int | None = await self._read(lambda index: index.due.next_due_ms(queues))
        return answer

    async def wait(self, timeout_s: float) -> None:
        """Commits of other processes are noticed at once, lines of other programs within 250 ms."""
        self._open.listen(is_signalled=self._pipes.listen(self._receive))
        await self._news.wait(timeout_s)

    def _receive(self, signals: bytes) -> None:
        if DUE in signals:
            self._news.tell()

    def _change(
        self, work: Callable[[LogIndex], Any], *, size: int, durable: bool = True
    ) -> asyncio.Future[Any]:
        return self._open.submit(work, "change", size=size, durable=durable)

    def _read(self, work: Callable[[LogIndex], Any]) -> asyncio.Future[Any]:
        return self._open.submit(work, "read")

    @property
    def _open(self) -> StoreThread:
        if self._thread is None:
            raise StoreUnavailable(f"{self.path.name}: the store is not open")
        return self._thread


def _executed(
    index: LogIndex,
    execute: Callable[[LogIndex, Write], Any],
    writes: Sequence[Write],
    facts: Sequence[Fact],
) -> list[Any]:
    answers = [execute(index, write) for write in writes]
    index.note(facts)
    return answers

"""`MemoryStore`: a handle on a `MemoryDisk`, as a process holds a connection to a database."""

from __future__ import annotations

from collections.abc import Sequence

from homing.domain.delivery import Attempt, Content, Delivery, Fact, Key
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
    GroupBy,
    Page,
    Query,
    Seen,
    Store,
)
from homing.runtime import forks
from homing.stores.judging import Known, judge
from homing.stores.memory import reading
from homing.stores.memory.applying import apply
from homing.stores.memory.claiming import claim_due, renew_all
from homing.stores.memory.disk import MemoryDisk
from homing.stores.memory.purging import purge


class MemoryStore(Store):
    """Keeps everything in this process. No method awaits in the middle, so each is atomic."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk = MemoryDisk() if disk is None else disk
        self._news_seen = self.disk.news
        forks.forget_in_child(self)

    def forget_parent(self) -> None:
        """In a forked child: the parent delivers what it has accepted."""
        self.disk = MemoryDisk()
        self._news_seen = self.disk.news

    async def open(self) -> None:
        """There is nothing to connect to, and nothing to check."""

    async def findings(self) -> list[Finding]:
        detail = "in memory only: what is accepted is lost when the process ends"
        return [Finding("store", "warning", detail)]

    async def close(self) -> None:
        """The disk keeps what was stored."""

    async def commit(self, batch: Batch) -> Answers:
        disk = self.disk
        judged = judge(batch.puts, Known(disk.deliveries, disk.keys, is_complete=True))
        apply(disk, judged)
        if self.projection is not None:
            disk.shown.put(self.projection.of_facts([*judged.facts.values()]))
        renewed = [renew_all(disk, renewal) for renewal in batch.renewals]
        purged = [purge(disk, rule) for rule in batch.purges]
        claimed = [self._claim(claim) for claim in batch.claims]
        disk.tell()
        return Answers(judged.answers, renewed, purged, claimed)

    def _claim(self, claim: Claim) -> list[Claimed]:
        self.disk.shown.expire(claim.now_ms)
        return claim_due(self.disk, claim)

    def show(self, projection: Projection) -> None:
        self.projection = projection

    async def shown(self, key: str) -> Seen | None:
        return self.disk.shown.get(key)

    async def shown_under(self, name: str) -> list[str]:
        return self.disk.shown.under(name)

    async def get(self, delivery_id: str) -> Delivery | None:
        return self.disk.deliveries.get(delivery_id)

    async def get_many(self, delivery_ids: Sequence[str]) -> list[Delivery | None]:
        return reading.get_many(self.disk, delivery_ids)

    async def content(self, delivery_id: str) -> Content | None:
        return self.disk.contents.get(delivery_id)

    async def find(self, source: str, key: str) -> Key | None:
        return self.disk.keys.get((source, key))

    async def page(self, query: Query, cursor: Cursor | None = None, limit: int = 50) -> Page:
        return reading.page(self.disk, query, cursor, limit)

    async def count(self, query: Query, by: tuple[GroupBy, ...] = ()) -> dict[tuple[str, ...], int]:
        return reading.count(self.disk, query, by)

    async def attempts(self, delivery_id: str) -> list[Attempt]:
        return reading.attempts(self.disk, delivery_id)

    async def attempts_of_many(self, delivery_ids: Sequence[str]) -> list[list[Attempt]]:
        return [reading.attempts(self.disk, delivery_id) for delivery_id in delivery_ids]

    async def facts(
        self,
        kind: str,
        prefix: str = "",
        limit: int = 1000,
        *,
        after: FactCursor | None = None,
        order: FactOrder = "key",
    ) -> list[Fact]:
        return reading.facts(self.disk, kind, prefix, limit, after, order)

    async def next_due_ms(self, queues: Sequence[str]) -> int | None:
        return self.disk.due.next_due_ms(queues)

    async def wait(self, timeout_s: float) -> None:
        """A change since this handle's last wait counts, so that none is missed."""
        if self._news_seen == self.disk.news:
            await self.disk.wait(timeout_s)
        self._news_seen = self.disk.news

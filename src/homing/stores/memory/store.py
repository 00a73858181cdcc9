"""`MemoryStore`: a handle on a `MemoryDisk`, as a process holds a connection to a database."""

from __future__ import annotations

from collections.abc import Sequence

from homing.domain.delivery import Attempt, Change, Content, Delivery, Fact, Key, New
from homing.domain.shown import Projection
from homing.domain.writes import write_of_change, write_of_new
from homing.ports import (
    Added,
    Claim,
    Claimed,
    Cursor,
    Existing,
    FactCursor,
    FactOrder,
    Finding,
    GroupBy,
    Page,
    PurgeRule,
    Query,
    Seen,
)
from homing.runtime import forks
from homing.stores.memory import reading
from homing.stores.memory.claiming import claim_due, renew_all
from homing.stores.memory.disk import MemoryDisk
from homing.stores.memory.purging import purge
from homing.stores.memory.writing import add_one, save_one


class MemoryStore:
    """Keeps everything in this process. No method awaits in the middle, so each is atomic."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk = MemoryDisk() if disk is None else disk
        self._news_seen = self.disk.news
        self._projection: Projection | None = None
        forks.forget_in_child(self)

    def _forget_parent(self) -> None:
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

    async def add(self, new: Sequence[New], facts: Sequence[Fact] = ()) -> list[Added | Existing]:
        writes = [write_of_new(one, self._projection) for one in new]
        answers = [add_one(self.disk, write) for write in writes]
        self._finish(facts)
        return answers

    async def claim(self, claim: Claim) -> list[Claimed]:
        self.disk.shown.expire(claim.now_ms)
        return claim_due(self.disk, claim)

    async def renew(
        self, holder: str, held: Sequence[tuple[str, int]], lease_until_ms: int
    ) -> list[bool]:
        return renew_all(self.disk, holder, held, lease_until_ms)

    async def save(self, changes: Sequence[Change], facts: Sequence[Fact] = ()) -> list[bool]:
        writes = [write_of_change(change, self._projection) for change in changes]
        answers = [save_one(self.disk, write) for write in writes]
        self._finish(facts)
        return answers

    def _finish(self, facts: Sequence[Fact]) -> None:
        self.disk.note(facts)
        if self._projection is not None:
            self.disk.shown.put(self._projection.of_facts(facts))
        self.disk.tell()

    def show(self, projection: Projection) -> None:
        self._projection = projection

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

    async def purge(self, rule: PurgeRule) -> int:
        return purge(self.disk, rule)

    async def next_due_ms(self, queues: Sequence[str]) -> int | None:
        return self.disk.due.next_due_ms(queues)

    async def wait(self, timeout_s: float) -> None:
        """A change since this handle's last wait counts, so that none is missed."""
        if self._news_seen == self.disk.news:
            await self.disk.wait(timeout_s)
        self._news_seen = self.disk.news

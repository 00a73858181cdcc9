"""`MemoryStore`: a handle on a `MemoryDisk`, as a process holds a connection to a database."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from homing import forks
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
from homing.stores.memory.claiming import claim_due
from homing.stores.memory.disk import MemoryDisk
from homing.stores.memory.purging import purge
from homing.stores.memory.writing import add_one, save_one
from homing.stores.queries import group_words, listed, predicate


class MemoryStore:
    """Keeps everything in this process. No method awaits in the middle, so each is atomic."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk = MemoryDisk() if disk is None else disk
        self._news_seen = self.disk.news
        self._projection: Projection | None = None
        forks.forget_in_child(self)

    def forget_parent(self) -> None:
        """What the parent has accepted is the parent's to deliver."""
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
        return [self._renew_one(holder, *one, lease_until_ms) for one in held]

    def _renew_one(self, holder: str, delivery_id: str, version: int, lease_until_ms: int) -> bool:
        stored = self.disk.deliveries.get(delivery_id)
        if stored is None or stored.state != "in_flight":
            return False
        if (stored.holder, stored.version) != (holder, version):
            return False
        self.disk.put(replace(stored, due_at_ms=lease_until_ms))
        return True

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
        return [self.disk.deliveries.get(delivery_id) for delivery_id in delivery_ids]

    async def content(self, delivery_id: str) -> Content | None:
        return self.disk.contents.get(delivery_id)

    async def find(self, source: str, key: str) -> Key | None:
        return self.disk.keys.get((source, key))

    async def page(self, query: Query, cursor: Cursor | None = None, limit: int = 50) -> Page:
        wanted = predicate(query, self.disk.children_of)
        below = None if cursor is None else (cursor.created_at_ms, cursor.delivery_id)
        found = heapq.nlargest(
            limit + 1,
            (
                (d.created_at_ms, d.id)
                for d in self.disk.candidates(query)
                if wanted(d) and (below is None or (d.created_at_ms, d.id) < below)
            ),
        )
        items = tuple(self.disk.deliveries[delivery_id] for _, delivery_id in found[:limit])
        if len(found) <= limit or not items:
            return Page(items)
        return Page(items, Cursor(items[-1].created_at_ms, items[-1].id))

    async def count(self, query: Query, by: tuple[GroupBy, ...] = ()) -> dict[tuple[str, ...], int]:
        wanted = predicate(query, self.disk.children_of)
        counts = Counter(group_words(d, by) for d in self.disk.candidates(query) if wanted(d))
        return dict(counts) if by else {(): counts[()]}

    async def attempts(self, delivery_id: str) -> list[Attempt]:
        ledger = self.disk.attempts.get(delivery_id, {})
        return [ledger[number][1] for number in sorted(ledger)]

    async def facts(
        self,
        kind: str,
        prefix: str = "",
        limit: int = 1000,
        *,
        after: FactCursor | None = None,
        order: FactOrder = "key",
    ) -> list[Fact]:
        stored = self.disk.facts.get(kind, {}).values()
        return listed((fact for fact in stored if fact.key.startswith(prefix)), limit, after, order)

    async def purge(self, rule: PurgeRule) -> int:
        return purge(self.disk, rule)

    async def next_due_ms(self, lanes: Sequence[str]) -> int | None:
        return self.disk.due.next_due_ms(lanes)

    async def wait(self, timeout_s: float) -> None:
        """A change since this handle's last wait counts, so that none is missed."""
        if self._news_seen == self.disk.news:
            await self.disk.wait(timeout_s)
        self._news_seen = self.disk.news

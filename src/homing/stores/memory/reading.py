"""Reads of what a disk holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from homing.domain.delivery import Attempt, Delivery, Fact
from homing.ports import Cursor, FactCursor, FactOrder, GroupBy, Page, Query
from homing.stores.memory.disk import MemoryDisk
from homing.stores.queries import group_words, listed, paged, predicate


def get_many(disk: MemoryDisk, delivery_ids: Sequence[str]) -> list[Delivery | None]:
    return [disk.deliveries.get(delivery_id) for delivery_id in delivery_ids]


def page(disk: MemoryDisk, query: Query, cursor: Cursor | None, limit: int) -> Page:
    wanted = predicate(query, disk.children_of)
    return paged((each for each in disk.candidates(query) if wanted(each)), cursor, limit)


def count(disk: MemoryDisk, query: Query, by: tuple[GroupBy, ...]) -> dict[tuple[str, ...], int]:
    wanted = predicate(query, disk.children_of)
    counts = Counter(group_words(d, by) for d in disk.candidates(query) if wanted(d))
    return dict(counts) if by else {(): counts[()]}


def attempts(disk: MemoryDisk, delivery_id: str) -> list[Attempt]:
    ledger = disk.attempts.get(delivery_id, {})
    return [ledger[number].attempt for number in sorted(ledger)]


def facts(
    disk: MemoryDisk,
    kind: str,
    prefix: str,
    limit: int,
    after: FactCursor | None,
    order: FactOrder,
) -> list[Fact]:
    stored = disk.facts.get(kind, {}).values()
    return listed((fact for fact in stored if fact.key.startswith(prefix)), limit, after, order)

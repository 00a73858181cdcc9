"""Reads of what a disk holds."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from homing.domain.delivery import Attempt, Content, Delivery, Fact, Key
from homing.ports import Cursor, FactCursor, FactOrder, GroupBy, Page, Query, Store
from homing.stores.memory.disk import MemoryDisk
from homing.stores.queries import group_words, listed, paged, predicate

T = TypeVar("T")


class ReadsDisk(Store):
    """A store whose data are a `MemoryDisk`."""

    @abstractmethod
    async def _read(self, work: Callable[[MemoryDisk], T]) -> T:
        """What `work` returns of the disk."""

    async def get(self, delivery_id: str) -> Delivery | None:
        return await self._read(lambda disk: disk.deliveries.get(delivery_id))

    async def get_many(self, delivery_ids: Sequence[str]) -> list[Delivery | None]:
        return await self._read(lambda disk: [disk.deliveries.get(one) for one in delivery_ids])

    async def content(self, delivery_id: str) -> Content | None:
        return await self._read(lambda disk: disk.contents.get(delivery_id))

    async def find(self, source: str, key: str) -> Key | None:
        return await self._read(lambda disk: disk.keys.get((source, key)))

    async def page(self, query: Query, cursor: Cursor | None = None, limit: int = 50) -> Page:
        return await self._read(lambda disk: paged(_matching(disk, query), cursor, limit))

    async def count(self, query: Query, by: tuple[GroupBy, ...] = ()) -> dict[tuple[str, ...], int]:
        counts = await self._read(
            lambda disk: Counter(group_words(each, by) for each in _matching(disk, query))
        )
        return dict(counts) if by else {(): counts[()]}

    async def attempts_of_many(self, delivery_ids: Sequence[str]) -> list[list[Attempt]]:
        return await self._read(lambda disk: [attempts(disk, one) for one in delivery_ids])

    async def facts(
        self,
        kind: str,
        prefix: str = "",
        limit: int = 1000,
        *,
        after: FactCursor | None = None,
        order: FactOrder = "key",
    ) -> list[Fact]:
        def work(disk: MemoryDisk) -> list[Fact]:
            stored = disk.facts.get(kind, {}).values()
            found = (fact for fact in stored if fact.key.startswith(prefix))
            return listed(found, limit, after, order)

        return await self._read(work)

    async def next_due_ms(self, queues: Sequence[str]) -> int | None:
        return await self._read(lambda disk: disk.due.next_due_ms(queues))


def attempts(disk: MemoryDisk, delivery_id: str) -> list[Attempt]:
    ledger = disk.attempts.get(delivery_id, {})
    return [ledger[number].attempt for number in sorted(ledger)]


def _matching(disk: MemoryDisk, query: Query) -> Iterator[Delivery]:
    wanted = predicate(query, disk.children_of)
    return (each for each in disk.candidates(query) if wanted(each))

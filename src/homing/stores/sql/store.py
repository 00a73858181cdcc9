"""What a store reads, once for all SQL databases."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Sequence
from typing import ClassVar, Literal, TypeAlias, TypeVar

from homing.domain.delivery import Attempt, Content, Delivery, Fact, Key
from homing.ports import Cursor, FactCursor, FactOrder, GroupBy, Page, Query, Store
from homing.stores.sql import listing, reading
from homing.stores.sql.asking import Steps
from homing.stores.sql.dialect import Dialect
from homing.stores.sql.filters import is_counted
from homing.stores.sql.plugin_files import PluginFile, files_of

T = TypeVar("T")
# The maintained numbers answer it; it is for housekeeping; it is for people, and may take long.
Search: TypeAlias = Literal["counted", "housekeeping", "listing"]


class SqlStore(Store):
    """The reading half of the Store port, over the statements of a dialect."""

    _dialect: ClassVar[Dialect]

    def __init__(self) -> None:
        self._plugin_files: list[PluginFile] = []

    def add_sql_files(self, plugin: str, package: str) -> None:
        self._plugin_files += files_of(plugin, package)

    @abstractmethod
    def _ask(self, steps: Steps[T]) -> Awaitable[T]:
        """The answer to a question about few records."""

    @abstractmethod
    def _search(self, steps: Steps[T], search: Search) -> Awaitable[T]:
        """The answer to a listing or a count."""

    async def get(self, delivery_id: str) -> Delivery | None:
        return await self._ask(reading.get(self._dialect, delivery_id))

    async def get_many(self, delivery_ids: Sequence[str]) -> list[Delivery | None]:
        return await self._ask(reading.get_many(self._dialect, delivery_ids))

    async def content(self, delivery_id: str) -> Content | None:
        return await self._ask(reading.content(self._dialect, delivery_id))

    async def find(self, source: str, key: str) -> Key | None:
        return await self._ask(reading.find(self._dialect, source, key))

    async def attempts_of_many(self, delivery_ids: Sequence[str]) -> list[list[Attempt]]:
        return await self._ask(reading.attempts_of_many(self._dialect, delivery_ids))

    async def facts(
        self,
        kind: str,
        prefix: str = "",
        limit: int = 1000,
        *,
        after: FactCursor | None = None,
        order: FactOrder = "key",
    ) -> list[Fact]:
        return await self._ask(reading.facts(self._dialect, kind, prefix, limit, after, order))

    async def next_due_ms(self, queues: Sequence[str]) -> int | None:
        return await self._ask(reading.next_due_ms(self._dialect, queues))

    async def page(self, query: Query, cursor: Cursor | None = None, limit: int = 50) -> Page:
        steps = listing.page(self._dialect, query, cursor, limit)
        return await self._search(steps, _search_of(query))

    async def page_within(
        self, query: Query, cursor: Cursor | None, limit: int, look_at: int
    ) -> Page:
        steps = listing.page_within(self._dialect, query, cursor, limit, look_at)
        return await self._search(steps, _search_of(query))

    async def count(self, query: Query, by: tuple[GroupBy, ...] = ()) -> dict[tuple[str, ...], int]:
        return await self._count(query, by, None)

    async def count_up_to(
        self, query: Query, most: int, by: tuple[GroupBy, ...] = ()
    ) -> dict[tuple[str, ...], int]:
        return await self._count(query, by, most)

    def _count(
        self, query: Query, by: tuple[GroupBy, ...], most: int | None
    ) -> Awaitable[dict[tuple[str, ...], int]]:
        counted = is_counted(query, by)
        steps = listing.count(self._dialect, query, by, most, counted=counted)
        return self._search(steps, "counted" if counted else _search_of(query))


def _search_of(query: Query) -> Search:
    of_housekeeping = query.holder is not None or query.notices_due is not None
    return "housekeeping" if of_housekeeping else "listing"

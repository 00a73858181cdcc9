"""The store: one write call, and reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from homing.domain.delivery import Attempt, Content, Delivery, Fact, Key
from homing.ports.commit import ONE_WRITER, Commits, Kind
from homing.ports.queries import Cursor, FactCursor, FactOrder, GroupBy, Page, Query


class Store(Commits, Protocol):
    """Keeps deliveries durably, in batches. `transitions` and `writes` make all decisions.

    A store is a subclass: it has `commit` and the reads, and inherits the single requests.
    """

    async def open(self) -> None:
        """Connect, migrate, and check durability; refuse if it is weaker than Homing promises."""

    async def close(self) -> None:
        """Finish pending requests and close files and connections."""

    @property
    def writers(self) -> tuple[frozenset[Kind], ...]:
        """Which kinds of requests share a writer, and so may share a batch."""
        return ONE_WRITER

    async def get(self, delivery_id: str) -> Delivery | None:
        """One delivery."""

    async def get_many(self, delivery_ids: Sequence[str]) -> list[Delivery | None]:
        """In the order of the ids."""

    async def content(self, delivery_id: str) -> Content | None:
        """Its payload and results; None where there is no such delivery."""

    async def find(self, source: str, key: str) -> Key | None:
        """The key's record, expired or not, as long as it is stored."""

    async def page(self, query: Query, cursor: Cursor | None = None, limit: int = 50) -> Page:
        """Newest first, after the cursor; with `newer`, the page that ends just above it."""

    async def count(self, query: Query, by: tuple[GroupBy, ...] = ()) -> dict[tuple[str, ...], int]:
        """How many match, by the values of `by`; with no `by`, under the empty tuple."""

    async def attempts(self, delivery_id: str) -> list[Attempt]:
        """The ended attempts of a delivery, by number."""
        return (await self.attempts_of_many([delivery_id]))[0]

    async def attempts_of_many(self, delivery_ids: Sequence[str]) -> list[list[Attempt]]:
        """As `attempts`, in the order of the ids."""

    async def facts(
        self,
        kind: str,
        prefix: str = "",
        limit: int = 1000,
        *,
        after: FactCursor | None = None,
        order: FactOrder = "key",
    ) -> list[Fact]:
        """Facts of a kind whose key starts with `prefix`, after the cursor `after`.

        By key, or by (time, key) ascending (`oldest`) or descending (`newest`). A fact that is
        written again between two calls may be seen twice, or not at all, in time order.
        """

    async def next_due_ms(self, queues: Sequence[str]) -> int | None:
        """When the next delivery of these queues is due; None if none is."""

    async def wait(self, timeout_s: float) -> None:
        """Return when something may have become due, or after the timeout."""

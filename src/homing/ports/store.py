"""The store: every call is one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from homing.domain.delivery import Attempt, Change, Content, Delivery, Fact, Key, New
from homing.ports.queries import Cursor, FactCursor, FactOrder, GroupBy, Page, PurgeRule, Query
from homing.ports.records import Added, Claim, Claimed, Existing


class Store(Protocol):
    """Keeps deliveries durably, in batches. `transitions` and `writes` make all decisions."""

    async def open(self) -> None:
        """Connect, migrate, and check durability; refuse if it is weaker than Homing promises."""

    async def close(self) -> None:
        """Finish pending requests and close files and connections."""

    async def add(self, new: Sequence[New], facts: Sequence[Fact] = ()) -> list[Added | Existing]:
        """Store each one with its keys, children and facts, unless a key or its id is taken.

        A key that has expired by the new one's creation is free again. Children whose key or id
        is taken are left out and not counted. Facts of the call are written in any case.
        """

    async def claim(self, claim: Claim) -> list[Claimed]:
        """Due work, which is now held by the claiming worker."""

    async def renew(
        self, holder: str, held: Sequence[tuple[str, int]], lease_until_ms: int
    ) -> list[bool]:
        """Extend the leases of (id, version) pairs still held; the version stays."""

    async def save(self, changes: Sequence[Change], facts: Sequence[Fact] = ()) -> list[bool]:
        """Write each change iff the stored version is the one read; raise it by one.

        False means that the claim was lost, and nothing of that change is written. All changes
        and facts of one call are one commit. A `waiting` delivery is due exactly while it has no
        open children; the store itself keeps that count. A replaced payload stays readable
        as the result `payload.<its number>`, which `drop_results` keeps.
        """

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

    async def purge(self, rule: PurgeRule) -> int:
        """Remove what the rule describes, up to its limit; how many were removed."""

    async def next_due_ms(self, queues: Sequence[str]) -> int | None:
        """When the next delivery of these queues is due; None if none is."""

    async def wait(self, timeout_s: float) -> None:
        """Return when something may have become due, or after the timeout."""

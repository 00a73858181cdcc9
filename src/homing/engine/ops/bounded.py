"""Listings and counts for people, who wait for them: how much they read is bounded."""

from __future__ import annotations

from homing.ports import BoundedReads, Cursor, GroupBy, Page, Query, Store

# How many deliveries a page reads: some ten milliseconds.
LOOK_AT = 20_000
# Larger numbers are not counted exactly.
COUNT_UP_TO = 20_000


async def page_within(store: Store, query: Query, cursor: Cursor | None, limit: int) -> Page:
    """A page that may be short, with a cursor to continue from."""
    if isinstance(store, BoundedReads):
        return await store.page_within(query, cursor, limit, LOOK_AT)
    return await store.page(query, cursor, limit)


async def count_up_to(
    store: Store, query: Query, by: tuple[GroupBy, ...] = ()
) -> dict[tuple[str, ...], int]:
    """A sum above `COUNT_UP_TO` means that there are more than that."""
    if isinstance(store, BoundedReads):
        return await store.count_up_to(query, COUNT_UP_TO + 1, by)
    return await store.count(query, by)

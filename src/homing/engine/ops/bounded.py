"""Listings and counts for people, who wait for them: how much they read is bounded."""

from __future__ import annotations

from collections import Counter

from homing.engine.work.handlers import is_queue_of_handler
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


async def count_requests(store: Store) -> dict[tuple[str, str], int]:
    """How many requests there are, by route and state; what has none is left out.

    An event with several handlers is one request: the rows of its handlers are left out. They are
    recognised by their queues, because stores maintain the numbers by route, queue and state, and
    read no row for them.
    """
    counts: Counter[tuple[str, str]] = Counter()
    found = await store.count(Query(), by=("route", "queue", "state"))
    for (route, queue, state), number in found.items():
        if not is_queue_of_handler(queue):
            counts[route, state] += number
    return dict(counts)

"""How many requests there are, by route and state.

An event with several handlers is one request: the rows of its handlers are left out. They are
recognised by their queues, because stores maintain the numbers by route, queue and state, and
read no row for them.
"""

from __future__ import annotations

from collections import Counter

from homing.engine.work.handlers import is_queue_of_handler
from homing.ports import Query, Store


async def count_requests(store: Store) -> dict[tuple[str, str], int]:
    """By route and state; combinations without requests are left out."""
    counts: Counter[tuple[str, str]] = Counter()
    found = await store.count(Query(), by=("route", "queue", "state"))
    for (route, queue, state), number in found.items():
        if not is_queue_of_handler(queue):
            counts[route, state] += number
    return dict(counts)

"""Work that waits in queues which no live process serves."""

from __future__ import annotations

from collections import Counter

from homing.engine.process.liveness import Liveness
from homing.ports import Facet, Query, Store

PENDING = Query(facets=(Facet(state="pending"),))
IN_FLIGHT = Query(facets=(Facet(state="in_flight"),))


async def unserved_queues(store: Store, liveness: Liveness) -> dict[str, int]:
    """How many wait in each such queue, by the last check of liveness.

    A delivery in flight waits, too, unless a process with a heartbeat holds it.
    """
    waiting: Counter[str] = Counter()
    for query in (PENDING, IN_FLIGHT):
        for (queue,), number in (await store.count(query, by=("queue",))).items():
            if not liveness.is_served(queue):
                waiting[queue] += number
    if waiting:
        for queue in await liveness.queues_of_timers():
            waiting.pop(queue, None)
        for holder in liveness.beating | {liveness.name}:
            held = Query(holder=holder, facets=IN_FLIGHT.facets)
            for (queue,), number in (await store.count(held, by=("queue",))).items():
                waiting[queue] -= number
    return {queue: number for queue, number in sorted(waiting.items()) if number > 0}


def unserved_text(queue: str, number: int) -> str:
    return f"no live worker serves {queue}: {number} waiting"

"""Work that waits in lanes which no live process serves."""

from __future__ import annotations

from collections import Counter

from homing.engine.process.liveness import Liveness
from homing.ports import Facet, Query, Store

PENDING = Query(facets=(Facet(state="pending"),))
IN_FLIGHT = Query(facets=(Facet(state="in_flight"),))


async def unserved_lanes(store: Store, liveness: Liveness) -> dict[str, int]:
    """How many wait in each such lane, by the last check of liveness.

    A delivery in flight waits, too, unless a process with a heartbeat holds it.
    """
    waiting: Counter[str] = Counter()
    for query in (PENDING, IN_FLIGHT):
        for (lane,), number in (await store.count(query, by=("lane",))).items():
            if not liveness.is_served(lane):
                waiting[lane] += number
    if waiting:
        for lane in await liveness.lanes_of_timers():
            waiting.pop(lane, None)
        for holder in liveness.beating | {liveness.name}:
            held = Query(holder=holder, facets=IN_FLIGHT.facets)
            for (lane,), number in (await store.count(held, by=("lane",))).items():
                waiting[lane] -= number
    return {lane: number for lane, number in sorted(waiting.items()) if number > 0}


def unserved_text(lane: str, number: int) -> str:
    return f"no live worker serves {lane}: {number} waiting"

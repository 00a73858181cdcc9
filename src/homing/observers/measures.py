"""Counts and times the engine's work. Other modules show the numbers."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from homing.domain.delivery import Attempt
from homing.engine.ops.bounded import count_requests
from homing.engine.process.pausing import paused_routes
from homing.engine.route import Route
from homing.ports import Clock, Store, Transitioned

ACCEPT = "accept"
REPLAY = "replay"
# From a handler that never waits to a server that is slow after the final dot.
DURATIONS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Durations:
    """How many took how long: one count per bound of `DURATIONS_S`, and one beyond the last."""

    __slots__ = ("counts", "sum_ms")

    def __init__(self) -> None:
        self.counts = [0] * (len(DURATIONS_S) + 1)
        self.sum_ms = 0

    def add(self, took_ms: int) -> None:
        self.counts[bisect_left(DURATIONS_S, took_ms / 1000)] += 1
        self.sum_ms += took_ms


class Tally:
    """All that was counted since the start, in plain dicts: counting is cheap, showing is not.

    Keys: the route; route and new state; route, stage and outcome; the route. `cycles` has the
    number and the bytes of the entries that replays have added to the failure histories of a route.
    """

    def __init__(self) -> None:
        self.accepted: defaultdict[str, int] = defaultdict(int)
        self.transitions: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.attempts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        self.durations: defaultdict[str, Durations] = defaultdict(Durations)
        self.cycles: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))

    def count(self, events: Sequence[Transitioned]) -> None:
        for event in events:
            delivery, previous = event.delivery, event.previous
            route, state = delivery.route, delivery.state
            if event.name == ACCEPT:
                self.accepted[route] += 1
            if previous is None or previous.state != state:
                self.transitions[route, state] += 1
            if event.name == REPLAY and delivery.failure_history:
                entries, size = self.cycles[route]
                added = len(msgspec.json.encode(delivery.failure_history[-1]))
                self.cycles[route] = entries + 1, size + added
            for attempt in event.ended:
                self.attempts[route, attempt.stage, attempt.status] += 1
                took_ms = duration_ms(attempt)
                if took_ms is not None:
                    self.durations[route].add(took_ms)


def duration_ms(attempt: Attempt) -> int | None:
    """From the claim to the outcome; a clock that was set back makes no time negative."""
    if attempt.started_at_ms is None or attempt.ended_at_ms is None:
        return None
    return max(attempt.ended_at_ms - attempt.started_at_ms, 0)


class StoreSnapshot(Struct, frozen=True):
    """The current state of the store, for all processes together."""

    counts: Mapping[tuple[str, str], int]
    overdue_s: Mapping[str, float]
    paused: Mapping[str, bool]
    workers: int = 0


async def store_snapshot(
    store: Store, routes: Mapping[str, Route], clock: Clock, workers: int
) -> StoreSnapshot:
    """Counts by route and state, how late the oldest due one is, and which routes are paused."""
    counts = await count_requests(store)
    paused = await paused_routes(store)
    overdue_s = {}
    for name, route in routes.items():
        due_at_ms = await store.next_due_ms(route.served_queues)
        late_ms = 0 if due_at_ms is None else max(clock.now_ms() - due_at_ms, 0)
        overdue_s[name] = late_ms / 1000
    return StoreSnapshot(
        counts,
        overdue_s,
        {name: name in paused for name in routes},
        workers,
    )

"""What is counted and timed of the engine's work; how it is shown is somebody else's matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from homing.engine.parking import PARKED
from homing.engine.route import Route
from homing.ports import Clock, Query, Store, Transitioned

ACCEPT = "accept"
# From a handler that never waits to a server that is slow after the final dot.
DURATIONS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Measures(Struct):
    """Of one batch of transitions: counted together, so that each delivery costs little."""

    accepted: Counter[str] = field(default_factory=Counter)
    transitions: Counter[tuple[str, str]] = field(default_factory=Counter)
    attempts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    durations: list[tuple[str, float]] = field(default_factory=list)


def measured(events: Sequence[Transitioned]) -> Measures:
    """Keys: the route; route and new state; route, stage and outcome. Durations are seconds."""
    found = Measures()
    for event in events:
        route, state = event.delivery.route, event.delivery.state
        if event.name == ACCEPT:
            found.accepted[route] += 1
        if event.previous is None or event.previous.state != state:
            found.transitions[route, state] += 1
        for attempt in event.ended:
            found.attempts[route, attempt.stage, attempt.status] += 1
            if attempt.started_at_ms is not None and attempt.ended_at_ms is not None:
                took_ms = max(attempt.ended_at_ms - attempt.started_at_ms, 0)
                found.durations.append((route, took_ms / 1000))
    return found


class Standing(Struct, frozen=True):
    """How things stand in the store right now, for all processes together."""

    counts: Mapping[tuple[str, str], int]
    overdue_s: Mapping[str, float]
    parked: Mapping[str, bool]


async def standing(store: Store, routes: Mapping[str, Route], clock: Clock) -> Standing:
    """Counts by route and state, how late the oldest due one is, and which routes are parked."""
    counts = await store.count(Query(), by=("route", "state"))
    parked = {fact.key for fact in await store.facts(PARKED)}
    overdue_s = {}
    for name, route in routes.items():
        due_at_ms = await store.next_due_ms(route.served_lanes)
        late_ms = 0 if due_at_ms is None else max(clock.now_ms() - due_at_ms, 0)
        overdue_s[name] = late_ms / 1000
    return Standing(
        {(route, state): number for (route, state), number in counts.items()},
        overdue_s,
        {name: name in parked for name in routes},
    )

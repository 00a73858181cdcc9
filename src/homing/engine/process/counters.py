"""Counters for charts: per route, how many deliveries were accepted, delivered and failed, how many
wait, and how long they took, by the minute, by ten minutes and by the hour.

Each process counts in memory and writes facts of its own every few seconds, so counting costs well
under a microsecond and survives a restart. A crash loses the last seconds. Children are not
counted: a request counts once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, field

from homing.domain.delivery import CLAIMABLE_STATES, Delivery, Fact, FactValue
from homing.engine.ops.bounded import count_requests
from homing.ports import Clock, FactCursor, Store

FLUSH_EVERY_S = 10.0
MINUTE_MS = 60_000
MAX_FACTS = 100_000
ENDS = ("delivered", "failed")
# Facts by group: a replayed dead letter has failed again with the same error.
CAME_BACK = "came_back"
# Facts by source (the program that submits): a key is looked up by source and key.
SOURCES = "source"
MAX_SOURCES = 100

Span: TypeAlias = Literal["hour", "day", "week"]


class Resolution(Struct, frozen=True):
    """The step, the length and the retention of the data for charts over one span."""

    kind: str
    step_ms: int
    points: int


RESOLUTIONS: dict[Span, Resolution] = {
    "hour": Resolution("counts_1m", 60_000, 60),
    "day": Resolution("counts_10m", 600_000, 144),
    "week": Resolution("counts_1h", 3_600_000, 168),
}
STEPS_MS = {each.kind: each.step_ms for each in RESOLUTIONS.values()}
# A little longer than its chart.
KEPT_S = {each.kind: each.step_ms * (each.points + 2) / 1000 for each in RESOLUTIONS.values()}
# Upper bounds of the histogram of times to deliver; one more place is for all beyond.
BOUNDS_MS = (
    *(10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000),
    *(60_000, 120_000, 300_000, 900_000, 3_600_000, 14_400_000, 86_400_000),
)


class Tally(Struct):
    """The numbers of one route in one step; `times` is the histogram of times to deliver."""

    accepted: int = 0
    delivered: int = 0
    failed: int = 0
    waiting: int = 0
    times: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_MS) + 1))

    def add(self, other: Tally) -> None:
        """Every process sees all waiting deliveries, so that number is not a sum."""
        self.accepted += other.accepted
        self.delivered += other.delivered
        self.failed += other.failed
        self.waiting = max(self.waiting, other.waiting)
        self.times = [a + b for a, b in zip(self.times, other.times, strict=True)]


class Point(Struct, frozen=True, kw_only=True):
    """One step of a chart. `waiting` is how many had not ended; the times are those to deliver."""

    at_ms: int
    accepted: int
    delivered: int
    failed: int
    waiting: int
    p50_ms: int | None
    p95_ms: int | None


class Counters:
    """The counters of one process, which `holder` names in the store."""

    def __init__(self, store: Store, clock: Clock, holder: str) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        # What came since the last write, by minute and route; added to the tallies there.
        self._fresh: dict[tuple[int, str], Tally] = {}
        self._tallies: dict[tuple[str, int, str], Tally] = {}
        self._unwritten: set[tuple[str, int, str]] = set()
        self._came_back: dict[str, Fact] = {}
        self._sources: set[str] = set()
        self._noted_sources: set[str] = set()
        self._sampled_at_ms = 0
        self._waiting: dict[str, int] = {}

    def accepted(self, deliveries: Sequence[Delivery]) -> None:
        minute = self._clock.now_ms() // MINUTE_MS
        numbers = Counter([each.route for each in deliveries if each.parent_id is None])
        for route, number in numbers.items():
            self._tally(minute, route).accepted += number
        if len(self._sources) < MAX_SOURCES:
            self._sources.update([each.source for each in deliveries])

    def changed(self, changes: Sequence[tuple[Delivery | None, Delivery]]) -> None:
        """Stored changes, each with the delivery before and after: those that ended count."""
        now_ms = self._clock.now_ms()
        minute = now_ms // MINUTE_MS
        route, tally = None, Tally()
        for before, after in changes:
            state = after.state
            if state not in ENDS or after.parent_id is not None:
                continue
            if before is not None and before.state == state:
                continue
            if after.route != route:
                route = after.route
                tally = self._tally(minute, route)
            if state == "failed":
                tally.failed += 1
                if after.failure_history:
                    self._note_if_it_came_back(after, now_ms)
            else:
                tally.delivered += 1
                if after.cycle == 1:  # after a replay it would be the time of a person
                    tally.times[bisect_left(BOUNDS_MS, now_ms - after.created_at_ms)] += 1

    def _tally(self, minute: int, route: str) -> Tally:
        found = self._fresh.get((minute, route))
        if found is None:
            found = self._fresh[minute, route] = Tally()
        return found

    async def flush(self) -> None:
        """Write what has changed, and once a minute how many wait."""
        now_ms = self._clock.now_ms()
        if now_ms - self._sampled_at_ms >= MINUTE_MS:
            await self._sample(now_ms)
        await self.write()

    async def write(self) -> None:
        """If the store refuses, the numbers are written the next time."""
        self._gather()
        places, came_back = [*self._unwritten], {**self._came_back}
        sources = self._sources - self._noted_sources
        if not places and not came_back and not sources:
            return
        now_ms = self._clock.now_ms()
        heard = [Fact(SOURCES, source, now_ms, {}) for source in sorted(sources)]
        await self._store.save([], [*map(self._fact, places), *came_back.values(), *heard])
        self._unwritten.clear()
        self._noted_sources |= sources
        for key, fact in came_back.items():
            if self._came_back[key] is fact:
                del self._came_back[key]
        for kind, number, route in [*self._tallies]:
            if number < now_ms // STEPS_MS[kind]:
                del self._tallies[kind, number, route]

    def _gather(self) -> None:
        """Add what is fresh to the tallies of each resolution."""
        fresh, self._fresh = self._fresh, {}
        for (minute, route), tally in fresh.items():
            for kind, step_ms in STEPS_MS.items():
                place = kind, minute * MINUTE_MS // step_ms, route
                self._tallies.setdefault(place, Tally()).add(tally)
                self._unwritten.add(place)

    async def _sample(self, now_ms: int) -> None:
        counts = await count_requests(self._store)
        waiting: dict[str, int] = {}
        for (route, state), number in counts.items():
            if state in CLAIMABLE_STATES:
                waiting[route] = waiting.get(route, 0) + number
        # Where nothing waits nothing is written, but once.
        for route in {*waiting, *self._waiting}:
            for kind, step_ms in STEPS_MS.items():
                place = kind, now_ms // step_ms, route
                self._tallies.setdefault(place, Tally()).waiting = waiting.get(route, 0)
                self._unwritten.add(place)
        self._waiting = waiting
        self._sampled_at_ms = now_ms

    def _fact(self, place: tuple[str, int, str]) -> Fact:
        kind, number, route = place
        tally = self._tallies[place]
        value: FactValue = {
            "accepted": tally.accepted,
            "delivered": tally.delivered,
            "failed": tally.failed,
            "waiting": tally.waiting,
            "times": " ".join(map(str, tally.times)),
        }
        key = f"{number:010d}/{self._holder}/{route}"
        return Fact(kind, key, number * STEPS_MS[kind], value)

    def _note_if_it_came_back(self, after: Delivery, now_ms: int) -> None:
        error_class = "" if after.failure is None else after.failure.error_class
        if after.failure_history[-1].error_class != error_class:
            return
        key = group_key(after.route, error_class, after.failed_because or "")
        self._came_back[key] = Fact(CAME_BACK, key, now_ms, {"delivery_id": after.id})


def group_key(route: str, error_class: str, failed_because: str) -> str:
    """The name of a group of dead letters with the same error."""
    return "\t".join((route, error_class, failed_because))


async def history(
    store: Store, now_ms: int, span: Span, route: str | None = None
) -> tuple[int, list[Point]]:
    """The step in milliseconds, and a point for each step of the span, oldest first."""
    resolution = RESOLUTIONS[span]
    last = now_ms // resolution.step_ms
    first = last - resolution.points + 1
    tallies = {number: Tally() for number in range(first, last + 1)}
    # Behind every key of the step before.
    after = FactCursor(f"{first - 1:010d}0")
    for fact in await store.facts(resolution.kind, limit=MAX_FACTS, after=after):
        number, _, of = fact.key.split("/", 2)
        if int(number) in tallies and route in (None, of):
            tallies[int(number)].add(_tally(fact))
    return resolution.step_ms, [
        _point(number * resolution.step_ms, tally) for number, tally in tallies.items()
    ]


def _tally(fact: Fact) -> Tally:
    value = fact.value or {}
    accepted, delivered, failed, waiting = (
        int(value.get(name) or 0) for name in ("accepted", "delivered", "failed", "waiting")
    )
    times = [int(number) for number in str(value.get("times")).split()]
    return Tally(accepted, delivered, failed, waiting, times)


def _point(at_ms: int, tally: Tally) -> Point:
    return Point(
        at_ms=at_ms,
        accepted=tally.accepted,
        delivered=tally.delivered,
        failed=tally.failed,
        waiting=tally.waiting,
        p50_ms=percentile(tally.times, 0.50),
        p95_ms=percentile(tally.times, 0.95),
    )


def percentile(times: Sequence[int], share: float) -> int | None:
    """From the histogram, evenly spread within each of its places; None without any."""
    if not sum(times):
        return None
    wanted = share * sum(times)
    low_ms = 0
    for number, bound_ms in zip(times, (*BOUNDS_MS, BOUNDS_MS[-1]), strict=True):
        if number and wanted <= number:
            return round(low_ms + (bound_ms - low_ms) * wanted / number)
        wanted -= number
        low_ms = bound_ms
    return BOUNDS_MS[-1]

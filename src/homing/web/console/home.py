"""The first page: whether all is well, and if not, where to fix it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from msgspec import Struct, field
from starlette.responses import Response

from homing.engine.ops.inspecting import list_workers
from homing.engine.process.counters import RESOLUTIONS, Point, Span, history
from homing.engine.process.pausing import BY_FAULT
from homing.engine.process.store_report import store_warnings
from homing.engine.process.unserved import unserved_text
from homing.runtime.app import Homing
from homing.web.api.listing import Listing
from homing.web.api.schemas import RouteStats, StatsOut
from homing.web.console.charts import Series, lines
from homing.web.console.rendering import Rendering
from homing.web.console.visits import Page, Visit
from homing.web.console.words import plural, upper_first
from homing.web.console.words import span as spelt
from homing.web.http.problems import BadRequest

# Due for longer than this and not tried: work is late.
LATE_AFTER_S = 120.0
FIELDS = frozenset({"span"})
CHARTS_LAST_S = 2.0
# Failures rise when the last minutes have this many, and so many times those of before.
RECENT_MINUTES = 10
RISING_FROM = 5
RISING_TIMES = 3
ALWAYS_SHOWN = ("pending", "in_flight", "failed", "delivered")
STATES = ("pending", "in_flight", "waiting", "failed", "delivered", "suppressed", "dismissed")


class Reason(Struct, frozen=True):
    """Why all is not well, and the page where it is fixed."""

    text: str
    page: tuple[str, ...]
    label: str
    grave: bool = True
    query: Mapping[str, str] = field(default_factory=dict)


class Chart(Struct, frozen=True):
    title: str
    picture: str
    key: tuple[tuple[str, str], ...]


class Home:
    def __init__(self, homing: Homing, listing: Listing, rendering: Rendering) -> None:
        self._homing = homing
        self._listing = listing
        self._rendering = rendering
        self._charts: dict[Span, tuple[float, list[Point]]] = {}

    def pages(self) -> Iterable[Page]:
        return (
            Page("GET", "/", "read", self.show),
            Page("GET", "/workers", "read", self.workers),
        )

    async def show(self, visit: Visit) -> Response:
        span = cast(Span, visit.query(FIELDS).get("span", "hour"))
        if span not in RESOLUTIONS:
            raise BadRequest(f"must be one of {', '.join(RESOLUTIONS)}", "span")
        stats = await self._listing.collect_stats()
        totals: dict[str, int] = {}
        for route in stats.routes:
            for state, number in route.states.items():
                totals[state] = totals.get(state, 0) + number
        return self._rendering.page(
            visit,
            "home.html",
            place="",
            reasons=await self._reasons(visit, stats, totals),
            stats=stats,
            totals=totals,
            states=[name for name in STATES if totals.get(name) or name in ALWAYS_SHOWN],
            oldest_ms=stats.oldest_due_at_ms,
            workers=await list_workers(self._homing.engine),
            span=span,
            charts=charts_of(await self._history(span), span),
        )

    async def _history(self, span: Span) -> list[Point]:
        """Read once for all who look at the same time."""
        clock = self._homing.engine.clock
        at_s, points = self._charts.get(span, (float("-inf"), []))
        if clock.steady_s() - at_s > CHARTS_LAST_S:
            _, points = await history(self._homing.store, clock.now_ms(), span)
            self._charts[span] = (clock.steady_s(), points)
        return points

    async def workers(self, visit: Visit) -> Response:
        visit.query(frozenset())
        stats = await self._listing.collect_stats()
        return self._rendering.page(
            visit,
            "workers.html",
            place="workers",
            workers=await list_workers(self._homing.engine),
            unserved=stats.unserved,
        )

    async def _reasons(
        self, visit: Visit, stats: StatsOut, totals: Mapping[str, int]
    ) -> list[Reason]:
        engine = self._homing.engine
        oldest_ms = stats.oldest_due_at_ms
        reasons = [
            Reason(f"The store: {each}.", ("doctor",), "Doctor") for each in engine.health.problems
        ]
        reasons += [
            Reason(
                _paused(visit, route),
                ("routes", route.route),
                f"Route {route.route}",
            )
            for route in stats.routes
            if route.paused
        ]
        # A paused route has its reason already.
        problems = {
            route: problem
            for route, problem in engine.provider_problems.items()
            if not engine.pausing.is_paused(route)
        }
        if not stats.workers:
            reasons.append(
                Reason("No worker is running: nothing is delivered.", ("workers",), "Workers")
            )
        else:
            reasons += [
                Reason(f"{upper_first(unserved_text(queue, number))}.", ("workers",), "Workers")
                for queue, number in stats.unserved.items()
            ]
        late_s = 0.0 if oldest_ms is None else (engine.clock.now_ms() - oldest_ms) / 1000
        if late_s > LATE_AFTER_S:
            text = f"Work is late: the oldest delivery has been due for {spelt(late_s)}."
            reasons.append(Reason(text, ("deliveries",), "Pending", query={"state": "pending"}))
        for route, problem in problems.items():
            text = f"The provider of {route} fails: {visit.text(problem)}"
            reasons.append(Reason(text, ("routes", route), f"Route {route}"))
        failed = totals.get("failed", 0)
        # Those that were repaired since are history.
        rising = failures_rising(await self._history("hour")) if failed else None
        if rising is not None:
            reasons.append(Reason(rising, ("failures",), "Failures"))
        for warning in await store_warnings(self._homing.store, engine.clock):
            reasons.append(Reason(f"{upper_first(warning)}.", ("doctor",), "Doctor", grave=False))
        if failed and rising is None:
            wait = "waits" if failed == 1 else "wait"
            text = f"{plural(failed, 'dead letter')} {wait} for a decision."
            reasons.append(Reason(text, ("failures",), "Failures", grave=False))
        return reasons


def _paused(visit: Visit, route: RouteStats) -> str:
    fact = visit.ops.paused(route.route)
    by = ((fact.value if fact is not None else None) or {}).get("by")
    how = "is paused because of a fault" if by == BY_FAULT else f"is paused by {by}"
    text = f"Route {route.route} {how}: {visit.paused_because(route.route)}"
    waiting = route.states.get("pending", 0)
    return f"{text} ({plural(waiting, 'delivery', 'deliveries')} waiting)" if waiting else text


def failures_rising(points: Sequence[Point]) -> str | None:
    """Of the minutes of an hour: whether the last ones have many more failures than the others."""
    recent = sum(point.failed for point in points[-RECENT_MINUTES:])
    before = sum(point.failed for point in points[:-RECENT_MINUTES])
    usual = before * RECENT_MINUTES / max(len(points) - RECENT_MINUTES, 1)
    if recent < RISING_FROM or recent <= RISING_TIMES * usual:
        return None
    before_that = "none" if round(usual) == 0 else f"{usual:.0f} on average"
    return (
        f"Failures are rising: {recent:,} in the last {RECENT_MINUTES} minutes, against"
        f" {before_that} before."
    )


def charts_of(points: Sequence[Point], span: Span) -> list[Chart]:
    first = {"hour": "an hour ago", "day": "a day ago", "week": "a week ago"}[span]
    # The last step is not over: its counts would look like a fall.
    whole = points[:-1]
    flow = (
        Series("accepted", "move", [each.accepted for each in whole]),
        Series("delivered", "good", [each.delivered for each in whole]),
        Series("failed", "bad", [each.failed for each in whole]),
    )
    waiting = (Series("waiting", "wait", [each.waiting for each in whole]),)
    times = (
        Series("half within (p50)", "move", [_s(each.p50_ms) for each in whole]),
        Series("95 % within (p95)", "wait", [_s(each.p95_ms) for each in whole]),
    )
    per = {"hour": "a minute", "day": "in ten minutes", "week": "an hour"}[span]
    named = (
        (f"Deliveries {per}", flow, ""),
        ("Waiting", waiting, ""),
        ("Time to deliver", times, "s"),
    )
    return [
        Chart(
            title,
            lines(series, title, first, "now", unit),
            tuple((each.name, each.color) for each in series) if len(series) > 1 else (),
        )
        for title, series, unit in named
    ]


def _s(time_ms: int | None) -> float | None:
    return None if time_ms is None else time_ms / 1000

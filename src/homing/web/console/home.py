"""The first page: whether all is well, and if not, where to mend it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field
from starlette.responses import Response

from homing.app import Homing
from homing.domain.delivery import Fact
from homing.engine.liveness import WORKER
from homing.engine.parking import BY_FAULT
from homing.engine.store_verdict import store_warnings
from homing.engine.unserved import unserved_text
from homing.web.console.rendering import Rendering
from homing.web.console.visits import Page, Visit
from homing.web.console.words import plural, span
from homing.web.listing import Listing
from homing.web.schemas import StatsOut

# Due for longer than this and not tried: work is late.
LATE_AFTER_S = 120.0
STATES = ("pending", "in_flight", "waiting", "failed", "delivered", "suppressed", "dismissed")


class Reason(Struct, frozen=True):
    """Why all is not well, and the page where it is mended."""

    text: str
    page: tuple[str, ...]
    label: str
    grave: bool = True
    query: Mapping[str, str] = field(default_factory=dict)


class WorkerRow(Struct, frozen=True):
    """A process with a heartbeat."""

    name: str
    host: str
    pid: str
    lanes: tuple[str, ...]
    beat_at_ms: int
    alive: bool
    here: bool


class Home:
    def __init__(self, homing: Homing, listing: Listing, rendering: Rendering) -> None:
        self._homing = homing
        self._listing = listing
        self._rendering = rendering

    def pages(self) -> Iterable[Page]:
        return (
            Page("GET", "/", "read", self.show),
            Page("GET", "/workers", "read", self.workers),
        )

    async def show(self, visit: Visit) -> Response:
        visit.query(frozenset())
        stats = await self._listing.collect_stats()
        oldest_ms = await self._oldest_due()
        totals: dict[str, int] = {}
        for route in stats.routes:
            for state, number in route.states.items():
                totals[state] = totals.get(state, 0) + number
        return self._rendering.page(
            visit,
            "home.html",
            place="",
            reasons=await self._reasons(stats, totals, oldest_ms),
            stats=stats,
            totals=totals,
            states=STATES,
            oldest_ms=oldest_ms,
            workers=await worker_rows(self._homing),
        )

    async def workers(self, visit: Visit) -> Response:
        visit.query(frozenset())
        stats = await self._listing.collect_stats()
        return self._rendering.page(
            visit,
            "workers.html",
            place="workers",
            workers=await worker_rows(self._homing),
            unserved=stats.unserved,
        )

    async def _oldest_due(self) -> int | None:
        """The due time of the delivery that waits longest, on routes that are not parked."""
        engine = self._homing.engine
        lanes = [
            lane
            for route in engine.routes.values()
            if not engine.parking.is_parked(route.name)
            for lane in route.served_lanes
        ]
        due_ms = await engine.store.next_due_ms(lanes)
        return due_ms if due_ms is not None and due_ms <= engine.clock.now_ms() else None

    async def _reasons(
        self, stats: StatsOut, totals: Mapping[str, int], oldest_ms: int | None
    ) -> list[Reason]:
        engine = self._homing.engine
        reasons = [
            Reason(f"The store: {each}.", ("doctor",), "Doctor") for each in engine.health.problems
        ]
        reasons += [
            Reason(
                _parked(route.route, engine.parking.fact(route.route)),
                ("routes", route.route),
                "Route",
            )
            for route in stats.routes
            if route.parked
        ]
        if not stats.workers:
            reasons.append(
                Reason("No worker is running: nothing is delivered.", ("workers",), "Workers")
            )
        else:
            reasons += [
                Reason(f"{unserved_text(lane, number).capitalize()}.", ("workers",), "Workers")
                for lane, number in stats.unserved.items()
            ]
        late_s = 0.0 if oldest_ms is None else (engine.clock.now_ms() - oldest_ms) / 1000
        if late_s > LATE_AFTER_S:
            text = f"Work is late: the oldest delivery has been due for {span(late_s)}."
            reasons.append(Reason(text, ("deliveries",), "Pending", query={"state": "pending"}))
        for route, problem in engine.provider_problems.items():
            text = f"The provider of {route} fails: {problem}"
            reasons.append(Reason(text, ("routes", route), "Route"))
        for warning in await store_warnings(self._homing.store, engine.clock):
            text = f"{warning[0].upper()}{warning[1:]}."
            reasons.append(Reason(text, ("doctor",), "Doctor", grave=False))
        if failed := totals.get("failed", 0):
            wait = "waits" if failed == 1 else "wait"
            text = f"{plural(failed, 'dead letter')} {wait} for a decision."
            reasons.append(Reason(text, ("failures",), "Failures", grave=False))
        return reasons


def _parked(route: str, fact: Fact | None) -> str:
    value: Mapping[str, Any] = (fact.value if fact is not None else None) or {}
    by = "a fault" if value.get("by") == BY_FAULT else str(value.get("by") or "somebody")
    reason = value.get("reason") or value.get("error_class") or "no reason given"
    return f"Route {route} is parked by {by}: {reason}"


async def worker_rows(homing: Homing) -> list[WorkerRow]:
    """Every process that has beaten lately, this one first."""
    engine = homing.engine
    await engine.liveness.look()
    rows = []
    for fact in await homing.store.facts(WORKER):
        value = fact.value or {}
        here = fact.key == engine.holder
        rows.append(
            WorkerRow(
                fact.key,
                str(value.get("host") or ""),
                str(value.get("pid") or ""),
                tuple(sorted(lane for lane in str(value.get("lanes") or "").split("\n") if lane)),
                fact.at_ms,
                here or fact.key in engine.liveness.beating,
                here,
            )
        )
    return sorted(rows, key=lambda row: (not row.here, not row.alive, row.name))

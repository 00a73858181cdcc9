"""Routes: when attempts come, what is allowed, whether the provider answers; pause and resume."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct
from starlette.responses import Response

from homing.domain.errors import NotFound
from homing.domain.policy import Stage
from homing.engine.ops.advice import advice
from homing.engine.ops.planning import Forecast, forecast
from homing.engine.ops.verbs import ROUTE_VERBS
from homing.engine.route import Route
from homing.ports import Checked, Described
from homing.runtime.app import Homing
from homing.settings import seconds
from homing.web.api.inspection import Inspection
from homing.web.api.intake import takes_emails
from homing.web.api.listing import Listing
from homing.web.api.schemas import RouteStats, VerbIn
from homing.web.api.verbs import Verbs
from homing.web.console.charts import plan_picture
from homing.web.console.rendering import Rendering
from homing.web.console.visits import Page, Visit
from homing.web.http.problems import BadRequest

DEFAULT_OUTAGE = "1h"
FIELDS = frozenset({"outage", "did"})
DONE = {name: row.done for name, row in ROUTE_VERBS.items()} | {
    "check": "The provider was asked; see below."
}


class StagePlan(Struct, frozen=True):
    """A stage with its attempts, as they would come in an outage."""

    stage: Stage
    seen: Forecast
    picture: str


class Routes:
    def __init__(
        self,
        homing: Homing,
        listing: Listing,
        verbs: Verbs,
        inspection: Inspection,
        rendering: Rendering,
    ) -> None:
        self._homing = homing
        self._listing = listing
        self._verbs = verbs
        self._inspection = inspection
        self._rendering = rendering

    def pages(self) -> Iterable[Page]:
        one = "/routes/{route}"
        return (
            Page("GET", "/routes", "read", self.list),
            Page("GET", one, "read", self.show),
            Page("POST", f"{one}/pause", "operate", self.pause),
            Page("POST", f"{one}/resume", "operate", self.resume),
            Page("POST", f"{one}/check", "operate", self.check),
            Page("POST", f"{one}/test", "send", self.test),
        )

    async def list(self, visit: Visit) -> Response:
        visit.query(frozenset())
        stats = await self._listing.collect_stats()
        engine = self._homing.engine
        return self._rendering.page(
            visit,
            "routes.html",
            place="routes",
            routes=[
                (
                    each,
                    route := engine.routes.get(each.route),
                    visit.ops.paused(each.route),
                    _described(route),
                )
                for each in stats.routes
            ],
            problems=engine.provider_problems,
            served=await self._served(),
        )

    async def _served(self) -> frozenset[str]:
        """The routes that a live worker of any process works on."""
        engine = self._homing.engine
        await engine.liveness.look_if_fresh()
        by_timer = await engine.liveness.queues_of_timers()
        return frozenset(
            name
            for name, route in engine.routes.items()
            if any(
                queue in by_timer or engine.liveness.is_served(queue)
                for queue in route.served_queues
            )
        )

    async def show(self, visit: Visit) -> Response:
        fields = visit.query(FIELDS)
        name = visit.param("route")
        stats = await self._listing.collect_stats()
        counts = next((each for each in stats.routes if each.route == name), None)
        route = self._homing.engine.routes.get(name)
        if route is None and counts is None:
            raise NotFound(f"there is no route {name}")
        outage = fields.get("outage", DEFAULT_OUTAGE)
        paused = visit.ops.paused(name)
        return self._rendering.page(
            visit,
            "route.html",
            place="routes",
            name=name,
            route=route,
            counts=counts or RouteStats(name, {}, paused=False),
            paused=paused,
            advice=None if paused is None else advice(str((paused.value or {}).get("error_class"))),
            plans=[] if route is None else _plans(route, _outage_s(outage)),
            outage=outage,
            problem=self._homing.engine.provider_problems.get(name),
            checkup=self._inspection.checked.get(name),
            provider=_described(route),
            can_check=route is not None and isinstance(route.provider, Checked),
            can_test=route is not None and takes_emails(route) and self._homing.works_on(name),
            done=DONE.get(fields.get("did", "")),
        )

    async def pause(self, visit: Visit) -> Response:
        return await self._set(visit, paused=True)

    async def resume(self, visit: Visit) -> Response:
        return await self._set(visit, paused=False)

    async def _set(self, visit: Visit, *, paused: bool) -> Response:
        form = await visit.form()
        body = {"actor": visit.person, "reason": form.get("reason").strip()}
        try:
            given = msgspec.convert(body, VerbIn)
        except msgspec.ValidationError:
            raise BadRequest("say why: the reason is kept in the audit", "reason", 422) from None
        name = visit.param("route")
        await self._verbs.set_paused(visit.call, name, given, paused=paused)
        return visit.see("routes", name, did="pause" if paused else "resume")

    async def check(self, visit: Visit) -> Response:
        """Ask the provider: reachable, trusted, logged in. Nothing is sent."""
        await visit.form()
        name = visit.param("route")
        await self._inspection.check(name)
        return visit.see("routes", name, did="check")

    async def test(self, visit: Visit) -> Response:
        """One mail to an address of the operator's own."""
        form = await visit.form()
        name, to = visit.param("route"), form.get("to").strip()
        sent = await self._inspection.send_test(visit.call, name, to, visit.person)
        return visit.see("deliveries", sent.delivery_id)


def _described(route: Route | None) -> str | None:
    provider: object = None if route is None else route.provider
    return provider.description if isinstance(provider, Described) else None


def _plans(route: Route, outage_s: float) -> Sequence[tuple[str, Sequence[StagePlan]]]:
    """The plan, and the further ones that differ from it, by name."""
    named: Mapping[str, object] = {"": route.plan, **route.plans}
    shown = []
    for name, plan in named.items():
        if name and plan == route.plan:
            continue
        stages = route.plan.stages if not name else route.plans[name].stages
        seen = [(stage, forecast(stage.retry, outage_s)) for stage in stages]
        shown.append((name, [StagePlan(stage, one, plan_picture(one)) for stage, one in seen]))
    return shown


def _outage_s(text: str) -> float:
    try:
        return seconds(text)
    except ValueError as error:
        raise BadRequest(str(error), "outage", 422) from None

"""Reading by REST: lists with filters, single deliveries, their attempts, audit, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from starlette.responses import Response

from homing.app import Homing
from homing.content.addresses import parse
from homing.domain.delivery import Delivery, FailedBecause
from homing.domain.errors import InvalidRequest
from homing.engine.labels import ENGINE_LABELS
from homing.engine.route import Route
from homing.engine.status_words import facets_of
from homing.engine.unserved import unserved_lanes
from homing.engine.views import DeliveryView, attempt_view, audit_view, delivery_view
from homing.ports import Facet, Query
from homing.web.answers import json_answer
from homing.web.calls import Call, query_of
from homing.web.problems import BadRequest
from homing.web.reading import cursor_of, encode_cursor, limit_of, whole_number
from homing.web.schemas import (
    AttemptsOut,
    AuditOut,
    ErrorGroup,
    ErrorsOut,
    ListOut,
    RouteStats,
    StatsOut,
    WhyOut,
)

FILTERS = frozenset(
    {
        "recipient",
        "status",
        "source",
        "template_id",
        "idempotency_key",
        "error_class",
        "route",
        "from_created_at_ms",
        "to_created_at_ms",
        "limit",
        "cursor",
    }
)
NO_FILTERS: frozenset[str] = frozenset()


class Listing:
    def __init__(self, homing: Homing) -> None:
        self._homing = homing

    async def list(self, call: Call) -> Response:
        query = query_of(call.scope, FILTERS)
        page = await self._homing.desk.list(self._query(query), cursor_of(query), limit_of(query))
        items = [self.view(delivery) for delivery in page.items]
        return json_answer(ListOut(items, encode_cursor(page.next)))

    async def show(self, call: Call) -> Response:
        return json_answer(self.view(await self._homing.desk.show(id_of(call))))

    async def attempts(self, call: Call) -> Response:
        attempts = await self._homing.desk.attempts(id_of(call))
        return json_answer(AttemptsOut([attempt_view(attempt) for attempt in attempts]))

    async def audit(self, call: Call) -> Response:
        delivery = await self._homing.desk.show(id_of(call))
        facts = await self._homing.desk.audit(delivery.id)
        return json_answer(AuditOut([audit_view(fact) for fact in facts]))

    async def why(self, call: Call) -> Response:
        delivery_id = id_of(call)
        return json_answer(WhyOut(delivery_id, await self._homing.explain(delivery_id)))

    async def stats(self, call: Call) -> Response:
        query_of(call.scope, NO_FILTERS)
        return json_answer(await self.collect_stats())

    async def collect_stats(self) -> StatsOut:
        engine = self._homing.engine
        counts = await engine.store.count(Query(), by=("route", "state"))
        states: dict[str, dict[str, int]] = {
            name: {} for name in engine.routes if self._homing.works_on(name)
        }
        for (route, state), number in counts.items():
            states.setdefault(route, {})[state] = number
        await engine.parking.refresh()
        workers = await engine.live_workers()
        routes = [
            RouteStats(name, by_state, engine.parking.is_parked(name))
            for name, by_state in sorted(states.items())
        ]
        unserved = await unserved_lanes(engine.store, engine.liveness)
        return StatsOut(routes, workers, engine.clock.now_ms(), unserved)

    async def errors(self, call: Call) -> Response:
        query_of(call.scope, NO_FILTERS)
        counts = await self._homing.store.count(
            Query(facets=(Facet(state="failed"),)), by=("error_class", "failed_because", "route")
        )
        groups = [
            ErrorGroup(error_class, cast(FailedBecause, because), route, count)
            for (error_class, because, route), count in counts.items()
        ]
        return json_answer(ErrorsOut(sorted(groups, key=lambda group: -group.count)))

    def view(self, delivery: Delivery) -> DeliveryView:
        return delivery_view(delivery, self._homing.engine.routes.get(delivery.route))

    def _query(self, given: Mapping[str, str]) -> Query:
        first = whole_number(given, "from_created_at_ms")
        last = whole_number(given, "to_created_at_ms")
        if first is not None and last is not None and first > last:
            raise BadRequest("is after to_created_at_ms", "from_created_at_ms")
        return Query(
            route=given.get("route"),
            source=given.get("source"),
            key=given.get("idempotency_key"),
            topic=given.get("template_id"),
            recipient=_address(given.get("recipient")),
            error_class=given.get("error_class"),
            facets=self._facets(given.get("status"), given.get("route")),
            created_from_ms=first,
            created_before_ms=last,
        )

    def _facets(self, status: str | None, route_name: str | None) -> tuple[Facet, ...] | None:
        """The states that a status word means, in the routes that are asked for."""
        if status is None:
            return None
        routes = self._homing.engine.routes
        facets = facets_of(status, routes, route_name)
        if not facets:
            chosen = [route for name, route in routes.items() if route_name in (None, name)]
            raise BadRequest(f"must be one of {', '.join(words_of(chosen))}", "status")
        return facets


def words_of(routes: Iterable[Route]) -> tuple[str, ...]:
    """The status words of these routes, by which they can be filtered."""
    tables = [route.labels for route in routes] or [ENGINE_LABELS]
    return tuple(sorted({word for table in tables for word in table.words() if word}))


def id_of(call: Call) -> str:
    return str(call.path_params["delivery_id"])


def _address(text: str | None) -> str | None:
    """As it was stored: the bare address in its normal form. Not every recipient is one."""
    if text is None:
        return None
    try:
        return parse(text, "recipient").spec
    except InvalidRequest:
        return text

"""Reading by REST: lists with filters, single deliveries, their attempts, audit, and why."""

from __future__ import annotations

from typing import cast, get_args

from starlette.responses import Response

from homing.domain.delivery import Delivery, FailedBecause
from homing.engine.ops.inspecting import known_routes, oldest_due_ms
from homing.engine.ops.masking import masked_attempt, masked_audit, masked_delivery
from homing.engine.ops.request_counts import count_requests
from homing.engine.ops.views import DeliveryView, attempt_view, audit_view, delivery_view
from homing.engine.process.counters import Span, history
from homing.engine.process.unserved import unserved_queues
from homing.ports import Query
from homing.runtime.app import Homing
from homing.web.api.filters import from_query, to_query
from homing.web.api.schemas import (
    AttemptsOut,
    AuditOut,
    CountersOut,
    ErrorGroup,
    ErrorsOut,
    Filter,
    ListOut,
    RouteStats,
    SearchOut,
    StatsOut,
    WhyOut,
)
from homing.web.http.answers import json_answer
from homing.web.http.calls import Call, query_of
from homing.web.http.problems import BadRequest
from homing.web.http.reading import cursor_of, encode_cursor, limit_of

LIST_FIELDS = frozenset({*Filter.__struct_fields__, "limit", "cursor"})
NO_FILTERS: frozenset[str] = frozenset()
SEARCH_FIELDS = frozenset({"q", "limit"})
MAX_SEARCH_CHARS = 500
COUNTER_FIELDS = frozenset({"span", "route"})


class Listing:
    def __init__(self, homing: Homing) -> None:
        self._homing = homing

    async def list(self, call: Call) -> Response:
        fields = query_of(call.scope, LIST_FIELDS)
        query = await self.query(call, from_query(fields))
        page = await self._homing.desk.list(query, cursor_of(fields), limit_of(fields))
        items = [self.view(call, delivery) for delivery in page.items]
        return json_answer(ListOut(items, encode_cursor(page.next), encode_cursor(page.previous)))

    async def show(self, call: Call) -> Response:
        return json_answer(self.view(call, await self._homing.desk.show(id_of(call))))

    async def attempts(self, call: Call) -> Response:
        attempts = await self._homing.desk.attempts(id_of(call))
        views = [attempt_view(attempt) for attempt in attempts]
        if not call.let_in.sees_personal_data:
            views = [masked_attempt(view) for view in views]
        return json_answer(AttemptsOut(views))

    async def audit(self, call: Call) -> Response:
        delivery = await self._homing.desk.show(id_of(call))
        facts = await self._homing.desk.audit(delivery.id)
        views = [audit_view(fact) for fact in facts]
        if not call.let_in.sees_personal_data:
            views = [masked_audit(view) for view in views]
        return json_answer(AuditOut(views))

    async def why(self, call: Call) -> Response:
        delivery_id = id_of(call)
        personal = call.let_in.sees_personal_data
        lines = await self._homing.explain(delivery_id, personal=personal)
        return json_answer(WhyOut(delivery_id, lines))

    async def stats(self, call: Call) -> Response:
        query_of(call.scope, NO_FILTERS)
        return json_answer(await self.collect_stats())

    async def collect_stats(self) -> StatsOut:
        engine = self._homing.engine
        counts = await count_requests(engine.store)
        states: dict[str, dict[str, int]] = {
            name: {} for name in engine.routes if self._homing.works_on(name)
        }
        for (route, state), number in counts.items():
            states.setdefault(route, {})[state] = number
        await engine.pausing.refresh()
        workers = await engine.live_workers()
        routes = [
            RouteStats(name, by_state, engine.pausing.is_paused(name))
            for name, by_state in sorted(states.items())
        ]
        unserved = await unserved_queues(engine.store, engine.liveness)
        oldest_ms = await oldest_due_ms(engine)
        return StatsOut(routes, workers, engine.clock.now_ms(), unserved, oldest_ms)

    async def counters(self, call: Call) -> Response:
        fields = query_of(call.scope, COUNTER_FIELDS)
        span = fields.get("span", "hour")
        if span not in (spans := get_args(Span)):
            raise BadRequest(f"must be one of {', '.join(spans)}", "span")
        chosen, route = cast(Span, span), fields.get("route")
        await self.demand_route(route, refusal=404)
        engine = self._homing.engine
        step_ms, points = await history(engine.store, engine.clock.now_ms(), chosen, route)
        return json_answer(CountersOut(chosen, step_ms, route, points))

    async def errors(self, call: Call) -> Response:
        query_of(call.scope, NO_FILTERS)
        groups = [
            ErrorGroup(
                error_class=group.error_class,
                failed_because=cast(FailedBecause, group.failed_because),
                route=group.route,
                count=group.count,
                newest_delivery_id=None if group.newest is None else group.newest.id,
                newest_error=None
                if group.newest is None
                else self.view(call, group.newest).last_error,
                first_seen_at_ms=group.first_seen_at_ms,
                last_seen_at_ms=group.last_seen_at_ms,
                trend=group.trend,
                last_hour=group.last_hour,
                hour_before=group.hour_before,
                came_back_at_ms=group.came_back_at_ms,
                came_back_delivery_id=group.came_back_delivery_id,
            )
            for group in await self._homing.desk.errors()
        ]
        return json_answer(ErrorsOut(groups))

    async def search(self, call: Call) -> Response:
        fields = query_of(call.scope, SEARCH_FIELDS)
        text = fields.get("q", "").strip()
        if not 0 < len(text) <= MAX_SEARCH_CHARS:
            raise BadRequest(f"must have 1 to {MAX_SEARCH_CHARS} characters", "q")
        caller = call.let_in
        if "@" in text and not caller.sees_personal_data:
            raise BadRequest(f"role {caller.role} may not search for addresses", "q", 403)
        personal = caller.sees_personal_data
        found = await self._homing.search(text, limit_of(fields), personal=personal)
        items = [self.view(call, delivery) for delivery in found.deliveries]
        listed = {"recipient": "recipient", "key": "idempotency_key"}.get(found.matched)
        named = None if listed is None else {listed: text}
        return json_answer(SearchOut(found.matched, items, found.more, named))

    async def demand_route(self, name: str | None, place: str = "", refusal: int = 400) -> None:
        """Refuse one that nothing is known of: an empty answer would be to another question."""
        engine = self._homing.engine
        if name is None or name in engine.routes:
            return
        if name not in (known := await known_routes(engine)):
            raise BadRequest(f"must be one of {', '.join(known)}", f"{place}route", refusal)

    async def query(self, call: Call, given: Filter, place: str = "", refusal: int = 400) -> Query:
        """What the filter means. Who may not see addresses may not ask for one either."""
        if not call.let_in.sees_personal_data:
            for name in ("recipient", "idempotency_key", "source"):
                text: str | None = getattr(given, name)
                if text is not None and (name == "recipient" or "@" in text):
                    raise BadRequest("this role may not filter by address", f"{place}{name}", 403)
        query = to_query(given, self._homing.engine.routes, place, refusal)
        await self.demand_route(given.route, place, refusal)
        return query

    def view(self, call: Call, delivery: Delivery) -> DeliveryView:
        """As the caller may see it."""
        view = delivery_view(delivery, self._homing.engine.routes.get(delivery.route))
        return view if call.let_in.sees_personal_data else masked_delivery(view)

    def word(self, delivery: Delivery) -> str:
        """Its status."""
        route = self._homing.engine.routes.get(delivery.route)
        return delivery_view(delivery, route).status


def id_of(call: Call) -> str:
    return str(call.path_params["delivery_id"])

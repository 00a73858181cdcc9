"""Reading by REST: lists with filters, single deliveries, their attempts, audit, and why."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import cast, get_args

from starlette.responses import Response

from homing.domain.delivery import Delivery, FailedBecause
from homing.domain.errors import InvalidRequest
from homing.engine.ops.bounded import count_requests
from homing.engine.ops.caller import CallerOperations
from homing.engine.ops.delivery_filter import FILTERS, filter_from
from homing.engine.ops.inspecting import oldest_due_ms
from homing.engine.ops.masking import PersonalDataHidden
from homing.engine.ops.reader import MAX_SEARCH_CHARS
from homing.engine.ops.views import attempt_view, audit_view
from homing.engine.process.counters import Span, history
from homing.engine.process.unserved import unserved_queues
from homing.runtime.app import Homing
from homing.web.access.seen import ops_for
from homing.web.api.schemas import (
    AttemptsOut,
    AuditOut,
    CountersOut,
    FailureGroupOut,
    FailuresOut,
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

LIST_FIELDS = frozenset({*FILTERS, "limit", "cursor"})
NO_FILTERS: frozenset[str] = frozenset()
SEARCH_FIELDS = frozenset({"q", "limit"})
COUNTER_FIELDS = frozenset({"span", "route"})


class Listing:
    def __init__(self, homing: Homing) -> None:
        self._homing = homing

    def ops(self, call: Call) -> CallerOperations:
        """As the caller may see deliveries."""
        return ops_for(call.let_in, self._homing)

    async def list(self, call: Call) -> Response:
        fields = query_of(call.scope, LIST_FIELDS)
        ops = self.ops(call)
        with named_refusals():
            chosen = filter_from(conditions(fields))
            page = await ops.list(chosen, cursor_of(fields), limit_of(fields))
        items = [ops.view(delivery) for delivery in page.items]
        return json_answer(ListOut(items, encode_cursor(page.next), encode_cursor(page.previous)))

    async def show(self, call: Call) -> Response:
        ops = self.ops(call)
        return json_answer(ops.view(await ops.show(id_of(call))))

    async def attempts(self, call: Call) -> Response:
        attempts = await self.ops(call).attempts(id_of(call))
        return json_answer(AttemptsOut([attempt_view(attempt) for attempt in attempts]))

    async def audit(self, call: Call) -> Response:
        ops = self.ops(call)
        delivery = await ops.show(id_of(call))
        facts = await ops.audit(delivery.id)
        return json_answer(AuditOut([audit_view(fact) for fact in facts]))

    async def why(self, call: Call) -> Response:
        delivery_id = id_of(call)
        return json_answer(WhyOut(delivery_id, [*await self.ops(call).explain(delivery_id)]))

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
        await self.demand_route(route, 404)
        engine = self._homing.engine
        step_ms, points = await history(engine.store, engine.clock.now_ms(), chosen, route)
        return json_answer(CountersOut(chosen, step_ms, route, points))

    async def failures(self, call: Call) -> Response:
        query_of(call.scope, NO_FILTERS)
        ops = self.ops(call)
        groups = [
            FailureGroupOut(
                error_class=group.error_class,
                failed_because=cast(FailedBecause, group.failed_because),
                route=group.route,
                count=group.count,
                newest_delivery_id=None if group.newest is None else group.newest.id,
                newest_error=None if group.newest is None else ops.view(group.newest).last_error,
                first_seen_at_ms=group.first_seen_at_ms,
                last_seen_at_ms=group.last_seen_at_ms,
                trend=group.trend,
                last_hour=group.last_hour,
                hour_before=group.hour_before,
                came_back_at_ms=group.came_back_at_ms,
                came_back_delivery_id=group.came_back_delivery_id,
            )
            for group in await ops.failures()
        ]
        return json_answer(FailuresOut(groups))

    async def search(self, call: Call) -> Response:
        fields = query_of(call.scope, SEARCH_FIELDS)
        text = fields.get("q", "").strip()
        if not 0 < len(text) <= MAX_SEARCH_CHARS:
            raise BadRequest(f"must have 1 to {MAX_SEARCH_CHARS} characters", "q")
        ops = self.ops(call)
        try:
            found = await ops.search(text, limit_of(fields))
        except PersonalDataHidden as error:
            raise BadRequest(str(error), "q", 403) from None
        items = [ops.view(delivery) for delivery in found.deliveries]
        named = {str(found.matched): text} if found.matched in FILTERS else None
        return json_answer(SearchOut(found.matched, items, found.more, named))

    async def demand_route(self, name: str | None, refusal: int = 400) -> None:
        """Refuse a route that nothing is known of."""
        with named_refusals(refusal=refusal):
            await ops_for(None, self._homing).demand_route(name)

    def word(self, delivery: Delivery) -> str:
        """Its status."""
        route = self._homing.engine.routes.get(delivery.route)
        return delivery.state if route is None else route.word(delivery)


def conditions(fields: Mapping[str, str]) -> dict[str, str]:
    """Those of these fields that are conditions of a filter."""
    return {name: fields[name] for name in FILTERS if name in fields}


@contextlib.contextmanager
def named_refusals(place: str = "", refusal: int = 400) -> Iterator[None]:
    """A refusal of a condition has this status, and names the field behind `place`."""
    try:
        yield
    except PersonalDataHidden as error:
        raise BadRequest(str(error), f"{place}{error.field}", 403) from None
    except InvalidRequest as error:
        if error.field not in FILTERS:
            raise
        raise BadRequest(error.problem, f"{place}{error.field}", refusal) from None


def id_of(call: Call) -> str:
    return str(call.path_params["delivery_id"])

"""Operator REST: read, explain, repair."""

from __future__ import annotations

from typing import cast, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from homing.app import Homing
from homing.domain.delivery import Delivery, FailedBecause
from homing.domain.errors import NotFound
from homing.engine.route import Verb
from homing.engine.views import DeliveryView, attempt_view, audit_view, delivery_view
from homing.ports import Facet, Query
from homing.web.problems import BadRequest
from homing.web.reading import (
    cursor_of,
    encode_cursor,
    known_only,
    limit_of,
    parse,
    read_body,
    whole_number,
)
from homing.web.schemas import (
    AttemptsOut,
    AuditOut,
    ErrorGroup,
    ErrorsOut,
    ListOut,
    ReplayFilter,
    ReplaysIn,
    ReplaysOut,
    RouteStats,
    StatsOut,
    VerbIn,
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
MAX_VERB_BYTES = 16_384
# The verbs of the REST API, apart from `amend` which takes a payload.
VERBS: tuple[Verb, ...] = (
    "replay",
    "restart",
    "resend",
    "dismiss",
    "restore",
    "cancel",
    "confirm",
)


class Operator:
    def __init__(self, homing: Homing) -> None:
        self._homing = homing

    async def list(self, request: Request) -> Response:
        known_only(request, FILTERS)
        page = await self._homing.desk.list(
            self._query(request), cursor_of(request), limit_of(request)
        )
        items = [self._view(delivery) for delivery in page.items]
        return _json(ListOut(items, encode_cursor(page.next)))

    async def show(self, request: Request) -> Response:
        return _json(self._view(await self._homing.desk.show(_id(request))))

    async def attempts(self, request: Request) -> Response:
        attempts = await self._homing.desk.attempts(_id(request))
        return _json(AttemptsOut([attempt_view(attempt) for attempt in attempts]))

    async def audit(self, request: Request) -> Response:
        await self._homing.desk.show(_id(request))
        facts = await self._homing.desk.audit(_id(request))
        return _json(AuditOut([audit_view(fact) for fact in facts]))

    async def why(self, request: Request) -> Response:
        return _json(WhyOut(_id(request), await self._homing.explain(_id(request))))

    async def act(self, request: Request) -> Response:
        """POST …/{verb}: 409 when the state or the route does not allow it."""
        verb = request.path_params["verb"]
        if verb not in VERBS:
            raise NotFound(f"no verb {verb!r}; there are {', '.join(VERBS)}")
        given = parse(await read_body(request, MAX_VERB_BYTES), VerbIn)
        desk, delivery_id = self._homing.desk, _id(request)
        who = {"actor": given.actor, "reason": given.reason}
        if verb == "confirm":
            if not given.evidence:
                raise BadRequest("is needed to confirm", "evidence", 422)
            done = await desk.confirm(delivery_id, evidence=given.evidence, **who)
        elif verb == "replay":
            done = await desk.replay(
                delivery_id, generation=given.generation, cycle=given.cycle, **who
            )
        elif verb in ("restart", "dismiss"):
            done = await getattr(desk, verb)(delivery_id, cycle=given.cycle, **who)
        else:
            done = await getattr(desk, verb)(delivery_id, **who)
        return _json(self._view(done), 201 if verb == "resend" else 200)

    async def replay_many(self, request: Request) -> Response:
        given = parse(await read_body(request, MAX_VERB_BYTES), ReplaysIn)
        query = _replay_query(given.filter)
        replays = self._homing.replays
        if given.dry_run:
            matched = await replays.matching(query)
            return _json(ReplaysOut(None, matched, 0, "dry_run", None))
        progress = await replays.start(
            query,
            actor=given.actor,
            reason=given.reason,
            per_second=given.per_second,
            limit=given.limit,
        )
        return _json(ReplaysOut(progress.replay_id, progress.matched, 0, "running", None), 202)

    async def show_replay(self, request: Request) -> Response:
        progress = await self._homing.replays.show(request.path_params["replay_id"])
        return _json(
            ReplaysOut(
                progress.replay_id,
                progress.matched,
                progress.replayed,
                progress.state,
                progress.stopped_because,
            )
        )

    async def stats(self, request: Request) -> Response:
        del request
        return _json(await self.collect_stats())

    async def collect_stats(self) -> StatsOut:
        engine = self._homing.engine
        counts = await engine.store.count(Query(), by=("route", "state"))
        states: dict[str, dict[str, int]] = {name: {} for name in engine.routes}
        for (route, state), number in counts.items():
            states.setdefault(route, {})[state] = number
        await engine.parking.refresh()
        workers = [fact.key for fact in await engine.store.facts("worker")]
        routes = [
            RouteStats(name, by_state, engine.parking.is_parked(name))
            for name, by_state in sorted(states.items())
        ]
        return StatsOut(routes, workers, engine.clock.now_ms())

    async def errors(self, request: Request) -> Response:
        """Dead letters by their error class, the most frequent first."""
        del request
        query = Query(facets=(Facet(state="failed"),))
        counts = await self._homing.store.count(
            query, by=("error_class", "failed_because", "route")
        )
        groups = [
            ErrorGroup(error_class, because, route, count)
            for (error_class, because, route), count in counts.items()
        ]
        return _json(ErrorsOut(sorted(groups, key=lambda group: -group.count)))

    def _query(self, request: Request) -> Query:
        given = request.query_params
        first = whole_number(request, "from_created_at_ms")
        last = whole_number(request, "to_created_at_ms")
        if first is not None and last is not None and first > last:
            raise BadRequest("is after to_created_at_ms", "from_created_at_ms")
        return Query(
            route=given.get("route"),
            source=given.get("source"),
            key=given.get("idempotency_key"),
            topic=given.get("template_id"),
            recipient=given.get("recipient"),
            error_class=given.get("error_class"),
            facets=self._facets(given.get("status"), given.get("route")),
            created_from_ms=first,
            created_before_ms=last,
        )

    def _facets(self, status: str | None, route_name: str | None) -> tuple[Facet, ...] | None:
        """The states that the asked word stands for, in the routes that are asked for."""
        if status is None:
            return None
        routes = self._homing.engine.routes
        chosen = [route for name, route in routes.items() if route_name in (None, name)]
        facets: dict[Facet, None] = {}
        for route in chosen:
            stages = tuple(stage.name for stage in route.plan.stages)
            facets.update(dict.fromkeys(route.labels.facets(status, stages)))
        if not facets:
            words = sorted({word for route in chosen for word in route.labels.words()})
            raise BadRequest(f"must be one of {', '.join(words)}", "status")
        return tuple(facets)

    def _view(self, delivery: Delivery) -> DeliveryView:
        return delivery_view(delivery, self._homing.engine.routes.get(delivery.route))


def _replay_query(given: ReplayFilter) -> Query:
    because = given.failed_because
    if because is not None and because not in get_args(FailedBecause):
        words = ", ".join(get_args(FailedBecause))
        raise BadRequest(f"must be one of {words}", "filter.failed_because", 422)
    return Query(
        route=given.route,
        source=given.source,
        error_class=given.error_class,
        topic=given.template_id,
        created_from_ms=given.from_created_at_ms,
        created_before_ms=given.to_created_at_ms,
        facets=(Facet(state="failed", failed_because=cast("FailedBecause | None", because)),),
    )


def _id(request: Request) -> str:
    return str(request.path_params["delivery_id"])


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")

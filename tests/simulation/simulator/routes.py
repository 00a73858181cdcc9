"""The routes of one process, made from the routes of the seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from msgspec.structs import replace

from homing.domain.delivery import Content, Delivery
from homing.domain.message import decode_message
from homing.domain.policy import Ladder, Plan, Retention, Retry, RetryAfter, Stage
from homing.engine.route import Route
from homing.engine.work.function_step import FunctionStep
from homing.engine.work.handlers import Handlers
from homing.engine.work.steps import SendStep
from homing.ports import FanOut, Outcome, Provider, Step, Work
from tests.simulation.simulator.handler_runs import AT_ONCE, HandlerRuns
from tests.simulation.simulator.hosts import SimProcess
from tests.simulation.simulator.route_kinds import (
    POLL_S,
    PROBE_EVERY_S,
    ROUTE_KINDS,
    TIMEOUT_S,
    RouteKind,
)

SEND = "send"
MAIL_QUEUE = "mail"
# Three handlers for one type, one for each other one.
EVENT_HANDLERS: dict[str, tuple[str, ...]] = {
    "ping": ("only",),
    AT_ONCE: ("only",),
    "paid": ("a", "b", "c"),
}


class UniqueBytes:
    """Makes the bytes of a message. No two calls give the same: they must be kept (I17)."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = count(1)

    def __call__(self, delivery: Delivery, content: Content) -> bytes:
        del delivery
        return b"%d %s" % (next(self._numbers), content.payload[:24])


def routes_for(
    routes: Sequence[str],
    process: SimProcess,
    *,
    providers: Mapping[str, Provider],
    handler_runs: HandlerRuns,
    unique_bytes: UniqueBytes,
    concurrency: int,
) -> list[Route]:
    made = []
    for name in routes:
        route_kind = ROUTE_KINDS[name]
        send = SendStep(providers[name], unique_bytes) if name in providers else None
        provider = providers.get(name)
        if route_kind.carries == "event":
            route = _events(name, route_kind, handler_runs, process)
        elif route_kind.carries == "job":
            route = _jobs(name, route_kind, handler_runs, process, send)
        elif route_kind.carries == "digest":
            route = _digests(name, route_kind, send)
        else:
            route = _mail(name, route_kind, send)
        made.append(
            replace(
                route,
                provider=provider,
                concurrency=concurrency,
                poll_s=POLL_S,
                probe_every_s=PROBE_EVERY_S,
                on_mismatch=route_kind.on_mismatch,
            )
        )
    return made


def _retry(route_kind: RouteKind) -> Retry:
    return Retry(
        Ladder(route_kind.ladder_s),
        max_attempts=route_kind.max_attempts,
        retry_after=RetryAfter(cap_s=route_kind.retry_after_cap_s),
    )


def _stage(route_kind: RouteKind, name: str, *, sends: bool = False) -> Stage:
    return Stage(name=name, retry=_retry(route_kind), timeout_s=TIMEOUT_S, sends=sends)


def _plan(route_kind: RouteKind, *stages: Stage) -> Plan:
    return Plan(
        stages=stages,
        on_unknown=route_kind.on_unknown,
        on_route_fault=route_kind.on_route_fault,
        inline_counts=route_kind.inline_counts,
        interrupted_counts=route_kind.interrupted_counts,
        keep_delivered=route_kind.keep_delivered,
        retention=replace(
            Retention.forever(),
            delivered_s=route_kind.kept_s,
            dismissed_s=route_kind.kept_s,
            key_s=route_kind.key_term_s,
        ),
    )


def _steps(**steps: Step | SendStep | None) -> dict[str, Step | SendStep]:
    return {name: step for name, step in steps.items() if step is not None}


def _mail(name: str, route_kind: RouteKind, send: SendStep | None) -> Route:
    plan = _plan(route_kind, _stage(route_kind, SEND, sends=True))
    return Route(name=name, plan=plan, steps=_steps(send=send))


def _events(
    name: str, route_kind: RouteKind, handler_runs: HandlerRuns, process: SimProcess
) -> Route:
    handlers = Handlers()
    for event_type, names in EVENT_HANDLERS.items():
        for handler in names:
            handlers.add(
                event_type,
                handler_runs.function(process, "handle"),
                name=handler,
                retry=_retry(route_kind),
                timeout_s=TIMEOUT_S,
                terminal_errors=(),
            )
    plan = _plan(route_kind, _stage(route_kind, "handle"))
    route = handlers.route().with_plans(lambda each: replace(each, retention=plan.retention))
    return replace(route, name=name, plan=plan)


def _jobs(
    name: str,
    route_kind: RouteKind,
    handler_runs: HandlerRuns,
    process: SimProcess,
    send: SendStep | None,
) -> Route:
    stages = (
        _stage(route_kind, "fetch"),
        _stage(route_kind, "llm"),
        _stage(route_kind, "notify", sends=True),
    )
    steps = _steps(
        fetch=FunctionStep(handler_runs.function(process, "fetch")),
        llm=FunctionStep(handler_runs.function(process, "llm")),
        notify=send,
    )
    return Route(name=name, plan=_plan(route_kind, *stages), steps=steps)


def _digests(name: str, route_kind: RouteKind, send: SendStep | None) -> Route:
    mail = _plan(route_kind, _stage(route_kind, SEND, sends=True))
    return Route(
        name=name,
        plan=_plan(route_kind, _stage(route_kind, "spread")),
        plans={MAIL_QUEUE: mail},
        queues=("", MAIL_QUEUE),
        steps=_steps(spread=_spread, send=send),
    )


async def _spread(work: Work) -> Outcome:
    """A job becomes one mail for each of its readers."""
    readers = getattr(decode_message(work.content.payload), "data", None) or ()
    return FanOut(
        tuple(
            work.child(
                queue=MAIL_QUEUE,
                payload=b"digest",
                stage=SEND,
                intent=f"{work.delivery.id}/{reader}",
                recipients=(str(reader),),
            )
            for reader in readers
        )
    )

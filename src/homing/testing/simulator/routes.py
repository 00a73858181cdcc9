"""The routes of one process, made from the breeds of the seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from msgspec.structs import replace

from homing.domain.delivery import Content, Delivery
from homing.domain.message import decode_message
from homing.domain.policy import Ladder, Plan, Retry, RetryAfter, Stage
from homing.engine.handlers import FunctionStep, Handlers
from homing.engine.route import Route
from homing.engine.steps import SendStep
from homing.ports import FanOut, Outcome, Provider, Step, Work
from homing.testing.simulator.breeds import BREEDS, POLL_S, PROBE_EVERY_S, TIMEOUT_S, Breed
from homing.testing.simulator.hosts import Life
from homing.testing.simulator.work import Workshop

SEND = "send"
MAIL_LANE = "mail"
# Three handlers for one type, one for the other.
EVENT_HANDLERS: dict[str, tuple[str, ...]] = {"ping": ("only",), "paid": ("a", "b", "c")}


class Freezer:
    """Makes the bytes of a message. No two calls give the same: they must be kept (I17)."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = count(1)

    def __call__(self, delivery: Delivery, content: Content) -> bytes:
        del delivery
        return b"%d %s" % (next(self._numbers), content.payload[:24])


def routes_for(
    breeds: Sequence[str],
    life: Life,
    *,
    providers: Mapping[str, Provider],
    workshop: Workshop,
    freezer: Freezer,
    concurrency: int,
) -> list[Route]:
    made = []
    for name in breeds:
        breed = BREEDS[name]
        send = SendStep(providers[name], freezer) if name in providers else None
        provider = providers.get(name)
        if breed.kind == "event":
            route = _events(name, breed, workshop, life)
        elif breed.kind == "job":
            route = _jobs(name, breed, workshop, life, send)
        elif breed.kind == "digest":
            route = _digests(name, breed, send)
        else:
            route = _mail(name, breed, send)
        made.append(
            replace(
                route,
                provider=provider,
                concurrency=concurrency,
                poll_s=POLL_S,
                probe_every_s=PROBE_EVERY_S,
                on_mismatch=breed.on_mismatch,
            )
        )
    return made


def _retry(breed: Breed) -> Retry:
    return Retry(
        Ladder(breed.ladder_s),
        max_attempts=breed.max_attempts,
        retry_after=RetryAfter(cap_s=breed.retry_after_cap_s),
    )


def _stage(breed: Breed, name: str, *, sends: bool = False) -> Stage:
    return Stage(name=name, retry=_retry(breed), timeout_s=TIMEOUT_S, sends=sends)


def _plan(breed: Breed, *stages: Stage) -> Plan:
    return Plan(
        stages=stages,
        on_doubt=breed.on_doubt,
        on_route_fault=breed.on_route_fault,
        inline_counts=breed.inline_counts,
        interrupted_counts=breed.interrupted_counts,
        keep_delivered=breed.keep_delivered,
    )


def _steps(**steps: Step | None) -> dict[str, Step]:
    return {name: step for name, step in steps.items() if step is not None}


def _mail(name: str, breed: Breed, send: Step | None) -> Route:
    plan = _plan(breed, _stage(breed, SEND, sends=True))
    return Route(name=name, plan=plan, steps=_steps(send=send))


def _events(name: str, breed: Breed, workshop: Workshop, life: Life) -> Route:
    handlers = Handlers()
    for event_type, names in EVENT_HANDLERS.items():
        for handler in names:
            handlers.add(
                event_type,
                workshop.function(life, "handle"),
                name=handler,
                retry=_retry(breed),
                timeout_s=TIMEOUT_S,
                terminal_errors=(),
            )
    plan = _plan(breed, _stage(breed, "handle"))
    return replace(handlers.route(), name=name, plan=plan)


def _jobs(name: str, breed: Breed, workshop: Workshop, life: Life, send: Step | None) -> Route:
    stages = (
        _stage(breed, "fetch"),
        _stage(breed, "llm"),
        _stage(breed, "notify", sends=True),
    )
    steps = _steps(
        fetch=FunctionStep(workshop.function(life, "fetch")),
        llm=FunctionStep(workshop.function(life, "llm")),
        notify=send,
    )
    return Route(name=name, plan=_plan(breed, *stages), steps=steps)


def _digests(name: str, breed: Breed, send: Step | None) -> Route:
    mail = _plan(breed, _stage(breed, SEND, sends=True))
    return Route(
        name=name,
        plan=_plan(breed, _stage(breed, "spread")),
        plans={MAIL_LANE: mail},
        lanes=("", MAIL_LANE),
        steps=_steps(spread=_spread, send=send),
    )


async def _spread(work: Work) -> Outcome:
    """A job becomes one mail for each of its readers."""
    readers = getattr(decode_message(work.content.payload), "data", None) or ()
    return FanOut(
        tuple(
            work.child(
                lane=MAIL_LANE,
                payload=b"digest",
                stage=SEND,
                intent=f"{work.delivery.id}/{reader}",
                recipients=(str(reader),),
            )
            for reader in readers
        )
    )

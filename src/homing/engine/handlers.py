"""Handlers and jobs of the user's own: plain functions become steps of a route."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import CoroutineType
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from homing.domain.delivery import FROZEN_ORIGINAL, Delivery
from homing.domain.errors import HomingError, InvalidRequest
from homing.domain.failure import Failure
from homing.domain.message import Email, Event, Json, decode_message, encode_result
from homing.domain.policy import Exponential, FullJitter, Plan, Retry, Stage
from homing.engine.admitted import Admitted
from homing.engine.lanes import lane_name, lane_part
from homing.engine.request_checks import plain_text
from homing.engine.route import DEFAULT_CONCURRENCY, Route, classify_exception
from homing.engine.steps import FROZEN
from homing.ports import Done, FanOut, Outcome, Step, Work

Function: TypeAlias = Callable[["Assignment"], Any]
TerminalErrors: TypeAlias = type[Exception] | tuple[type[Exception], ...]

EVENT_ROUTE = "events"
HANDLE = "handle"
OUTCOMES = (Done, FanOut, Failure)
NOTHING_TO_KEEP = Done()
DEFAULT_RETRY = Retry(FullJitter(Exponential(initial_s=1.0, max_s=300.0)), max_attempts=5)


class Assignment(Struct, frozen=True, kw_only=True):
    """What a handler or a stage is called with."""

    id: str
    name: str
    data: Json
    key: str | None
    source: str
    attempt: int
    cycle: int
    metadata: Mapping[str, str]
    results: Mapping[str, Json]


class FunctionStep:
    """Calls one function; what it returns is kept as the stage's result."""

    def __init__(self, function: Function, terminal_errors: TerminalErrors = ()) -> None:
        self._function = function
        self._terminal_errors = terminal_errors

    async def __call__(self, work: Work) -> Outcome:
        try:
            returned = self._function(_assignment(work))
            if returned.__class__ is CoroutineType or inspect.isawaitable(returned):
                returned = await returned
        except self._terminal_errors as error:
            return replace(classify_exception(error), disposition="reject")
        if returned is None:
            return NOTHING_TO_KEEP
        if isinstance(returned, OUTCOMES):
            return returned
        try:
            return Done(result=encode_result(returned))
        except InvalidRequest as error:
            # Its next call would return the same kind of value.
            detail = f"what the function returned {error.problem}"
            return Failure("result_not_storable", "reject", detail=detail)


def check_policy(retry: object, timeout_s: object, terminal_errors: object) -> None:
    """Wrong ones would show only at the first failure, as errors that are tried again."""
    if not (retry is None or isinstance(retry, Retry)):
        raise InvalidRequest("retry", f"must be a Retry, not {type(retry).__name__}")
    if not (isinstance(timeout_s, int | float) and timeout_s > 0):
        raise InvalidRequest("timeout_s", "must be a number of seconds above 0")
    classes = terminal_errors if isinstance(terminal_errors, tuple) else (terminal_errors,)
    if not all(isinstance(each, type) and issubclass(each, Exception) for each in classes):
        raise InvalidRequest("terminal_errors", "must be a tuple of classes of exceptions")


class Handler(Struct, frozen=True):
    """One function for one type of event, with a policy of its own."""

    name: str
    step: FunctionStep
    retry: Retry
    timeout_s: float

    @property
    def plan(self) -> Plan:
        return Plan(stages=(Stage(name=HANDLE, retry=self.retry, timeout_s=self.timeout_s),))


class Handlers:
    """All handlers of a process. An event with one handler is handled in its own row; with
    several, its first claim adds a row for each, and each has its own budget."""

    def __init__(self) -> None:
        self._by_type: dict[str, dict[str, Handler]] = {}

    def add(
        self,
        event_type: str,
        function: Function,
        *,
        name: str | None,
        retry: Retry | None,
        timeout_s: float,
        terminal_errors: TerminalErrors,
    ) -> None:
        check_policy(retry, timeout_s, terminal_errors)
        name = name or str(getattr(function, "__name__", repr(function)))
        known = self._by_type.setdefault(event_type, {})
        if name in known:
            raise HomingError(f"event {event_type!r} has a handler {name!r} already")
        step = FunctionStep(function, terminal_errors)
        known[name] = Handler(name, step, retry or DEFAULT_RETRY, timeout_s)

    def __bool__(self) -> bool:
        return bool(self._by_type)

    def alone(self) -> dict[str, str]:
        """For each type of event with one handler, the name of that handler."""
        return {
            event_type: name
            for event_type, handlers in self._by_type.items()
            if len(handlers) == 1
            for name in handlers
        }

    def route(self, generation: int = 0) -> Route:
        """The route of all events; `generation` is that of this process's code."""
        plans: dict[str, Plan] = {}
        lanes: list[str] = []
        for event_type, handlers in self._by_type.items():
            lane = lane_part(event_type)
            lanes.append(lane)
            if len(handlers) == 1:
                plans[lane] = next(iter(handlers.values())).plan
                continue
            for handler in handlers.values():
                of_handler = f"{lane}/{lane_part(handler.name)}"
                lanes.append(of_handler)
                plans[of_handler] = handler.plan
        return Route(
            name=EVENT_ROUTE,
            plan=Plan(stages=(Stage(name=HANDLE, retry=DEFAULT_RETRY),)),
            plans=plans,
            steps={HANDLE: EventStep(self._by_type)},
            lanes=tuple(lanes) or ("",),
            generation=generation,
            concurrency=DEFAULT_CONCURRENCY if lanes else 0,
            admit=admit_event,
        )


class EventStep:
    """The step of all events: each lane belongs to one handler, or to one event with several."""

    def __init__(self, by_type: Mapping[str, Mapping[str, Handler]]) -> None:
        self._by_type = by_type

    def __call__(self, work: Work) -> Coroutine[Any, Any, Outcome]:
        return self.for_lane(work.delivery)(work)

    def for_lane(self, delivery: Delivery) -> Step:
        handlers = self._by_type[delivery.topic or ""]
        chosen = delivery.metadata.get("handler")
        if chosen is not None:
            return handlers[chosen].step
        if len(handlers) == 1:
            return next(iter(handlers.values())).step
        return functools.partial(_one_for_each, handlers=handlers)


async def _one_for_each(work: Work, handlers: Iterable[str]) -> Outcome:
    lane = lane_part(work.delivery.topic or "")
    return FanOut(
        tuple(
            work.child(
                lane=f"{lane}/{lane_part(name)}",
                payload=work.content.payload,
                metadata={"handler": name},
            )
            for name in handlers
        )
    )


def admit_event(event: Event) -> Admitted:
    """An event is worked on in the lane of its type."""
    if not isinstance(event, Event):
        raise InvalidRequest("message", "this route takes events")
    kind = event.type
    return Admitted(message=event, lane=lane_part(kind), topic=kind, metadata=event.metadata)


def event_lane(event_type: str, generation: int = 0) -> str:
    return lane_name(EVENT_ROUTE, lane_part(event_type), generation)


def job_route(
    name: str,
    work: object,
    stages: Sequence[str],
    *,
    retry: Retry | None = None,
    timeout_s: float = 30.0,
    terminal_errors: TerminalErrors = (),
) -> Route:
    """A route for staged work: an object with a method per stage, or one function."""
    check_policy(retry, timeout_s, terminal_errors)
    if isinstance(stages, str) or not stages or len({*map(str, stages)}) < len(stages):
        raise InvalidRequest("stages", "must be a list of different names")
    for stage in stages:
        plain_text("stages", stage)
    if inspect.isfunction(work):
        functions: dict[str, Function] = dict.fromkeys(stages, work)
    else:
        functions = {stage: getattr(work, stage, _missing) for stage in stages}
    for stage, function in functions.items():
        if function is _missing:
            raise HomingError(f"job {name!r} has no method for its stage {stage!r}")
    steps: dict[str, Step] = {
        stage: FunctionStep(function, terminal_errors) for stage, function in functions.items()
    }
    plan = Plan(
        stages=tuple(
            Stage(name=stage, retry=retry or DEFAULT_RETRY, timeout_s=timeout_s) for stage in stages
        )
    )
    return Route(name=name, plan=plan, steps=steps)


def _missing(assignment: Assignment) -> None:
    raise AssertionError(f"no stage for {assignment.name}")


def _assignment(work: Work) -> Assignment:
    delivery: Delivery = work.delivery
    message = decode_message(work.content.payload)
    if isinstance(message, Email):
        raise HomingError("this payload is not an event or a job")
    results = work.content.results
    # A handler of several sees the event's own identity, for its handled-record.
    of_event = "handler" in delivery.metadata
    return Assignment(
        id=delivery.parent_id or delivery.id if of_event else delivery.id,
        name=message.type if isinstance(message, Event) else message.name,
        data=message.data,
        key=delivery.key,
        source=delivery.source,
        attempt=delivery.attempts_spent + 1,
        cycle=delivery.cycle,
        metadata=delivery.metadata,
        results=_kept_results(results) if results else {},
    )


def _kept_results(results: Mapping[str, bytes]) -> dict[str, Json]:
    return {
        stage: msgspec.json.decode(result)
        for stage, result in results.items()
        if stage not in (FROZEN, FROZEN_ORIGINAL) and not stage.startswith("payload.")
    }

"""Handlers and jobs of the application: plain functions become the steps of a route."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from homing.domain.delivery import Delivery
from homing.domain.errors import HomingError, InvalidRequest
from homing.domain.message import Event
from homing.domain.policy import Exponential, FullJitter, Plan, Retry, Stage
from homing.engine.intake.admitted import Admitted
from homing.engine.intake.request_checks import plain_text
from homing.engine.queues import queue_name, queue_part
from homing.engine.route import DEFAULT_CONCURRENCY, Route
from homing.engine.work.function_step import Function, FunctionStep, HandlerCall, TerminalErrors
from homing.engine.work.handler_retry import judge
from homing.engine.work.handler_step import HandlerStep, OnceStep, Validate, validated
from homing.ports import FanOut, OnceStore, Outcome, Step, Store, Work

EVENT_ROUTE = "events"
HANDLE = "handle"
DEFAULT_RETRY = Retry(FullJitter(Exponential(initial_s=1.0, max_s=300.0)), max_attempts=5)


def check_policy(retry: object, timeout_s: object, terminal_errors: object = ()) -> None:
    """Wrong values would show only at the first failure, as errors that are tried again."""
    if not (retry is None or isinstance(retry, Retry)):
        raise InvalidRequest("retry", f"must be a Retry, not {type(retry).__name__}")
    if not (isinstance(timeout_s, int | float) and timeout_s > 0):
        raise InvalidRequest("timeout_s", "must be a number of seconds above 0")
    given = terminal_errors if isinstance(terminal_errors, tuple) else (terminal_errors,)
    for each in given:
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise InvalidRequest("terminal_errors", "must be a tuple of classes of exceptions")


class Handler(Struct, frozen=True, kw_only=True):
    """One function for one type of event, with its own policy.

    A function with a second parameter is called with a connection to the store's database.
    """

    name: str
    function: Function
    retry: Retry
    timeout_s: float
    terminal_errors: TerminalErrors
    validate: Validate | None

    @property
    def plan(self) -> Plan:
        return Plan(stages=(Stage(name=HANDLE, retry=self.retry, timeout_s=self.timeout_s),))

    def step(self, store: Store | None) -> Step:
        function = self.function
        if self.validate is not None:
            function = validated(function, self.validate)
        if not _asks_for_connection(self.function):
            return HandlerStep(self.name, function, self.terminal_errors, store)
        given: object = store
        if not isinstance(given, OnceStore):
            raise HomingError(
                f"handler {self.name!r} takes a connection, which this store does not provide"
                " (it is not an OnceStore): use one that does, see docs/guides/events.md, or a"
                " handler with the event alone"
            )
        return OnceStep(self.name, function, self.terminal_errors, given)


def _asks_for_connection(function: Function) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature
        return False
    needed = [
        each
        for each in parameters
        if each.default is each.empty
        and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    return len(needed) == 2


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
        name: str | None = None,
        retry: Retry | None = None,
        validate: Validate | None = None,
        timeout_s: float = 30.0,
        terminal_errors: TerminalErrors = (),
    ) -> None:
        check_policy(retry, timeout_s, terminal_errors)
        if not (validate is None or callable(validate)):
            raise InvalidRequest("validate", "must be a function of the payload")
        name = name or str(getattr(function, "__name__", repr(function)))
        known = self._by_type.setdefault(event_type, {})
        if name in known:
            raise HomingError(f"event {event_type!r} has a handler {name!r} already")
        known[name] = Handler(
            name=name,
            function=function,
            retry=retry or DEFAULT_RETRY,
            timeout_s=timeout_s,
            terminal_errors=terminal_errors,
            validate=validate,
        )

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

    def route(self, generation: int = 0, store: Store | None = None) -> Route:
        """The route of all events; `generation` is that of this process's code.

        `store` is that of the route; it knows which events were handled.
        """
        plans: dict[str, Plan] = {}
        queues: list[str] = []
        steps = {
            event_type: {name: handler.step(store) for name, handler in handlers.items()}
            for event_type, handlers in self._by_type.items()
        }
        for event_type, handlers in self._by_type.items():
            queue = queue_part(event_type)
            queues.append(queue)
            if len(handlers) == 1:
                plans[queue] = next(iter(handlers.values())).plan
                continue
            for handler in handlers.values():
                of_handler = f"{queue}/{queue_part(handler.name)}"
                queues.append(of_handler)
                plans[of_handler] = handler.plan
        return Route(
            name=EVENT_ROUTE,
            plan=Plan(stages=(Stage(name=HANDLE, retry=DEFAULT_RETRY),)),
            plans=plans,
            steps={HANDLE: EventStep(steps)},
            queues=tuple(queues) or ("",),
            generation=generation,
            concurrency=DEFAULT_CONCURRENCY if queues else 0,
            admit=admit_event,
            judge=judge,
        )


class EventStep:
    """The step of all events: each queue belongs to one handler, or to one event with several."""

    def __init__(self, by_type: Mapping[str, Mapping[str, Step]]) -> None:
        self._by_type = by_type

    def __call__(self, work: Work) -> Coroutine[Any, Any, Outcome]:
        return self.for_queue(work.delivery)(work)

    def for_queue(self, delivery: Delivery) -> Step:
        handlers = self._by_type[delivery.topic or ""]
        chosen = delivery.metadata.get("handler")
        if chosen is not None:
            return handlers[chosen]
        if len(handlers) == 1:
            return next(iter(handlers.values()))
        return functools.partial(_one_for_each, handlers=handlers)


async def _one_for_each(work: Work, handlers: Iterable[str]) -> Outcome:
    queue = queue_part(work.delivery.topic or "")
    return FanOut(
        tuple(
            work.child(
                queue=f"{queue}/{queue_part(name)}",
                payload=work.content.payload,
                metadata={"handler": name},
            )
            for name in handlers
        )
    )


def admit_event(event: Event) -> Admitted:
    """An event belongs to the queue of its type."""
    if not isinstance(event, Event):
        raise InvalidRequest("message", "this route takes events")
    kind = event.type
    return Admitted(message=event, queue=queue_part(kind), topic=kind, metadata=event.metadata)


def event_queue(event_type: str, generation: int = 0) -> str:
    return queue_name(EVENT_ROUTE, queue_part(event_type), generation)


def is_queue_of_handler(queue: str) -> bool:
    """Whether it contains the rows of one of several handlers, and not events themselves."""
    return queue.startswith(f"{EVENT_ROUTE}/") and queue.count("/") > 1


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


def _missing(call: HandlerCall) -> None:
    raise AssertionError(f"no stage for {call.name}")

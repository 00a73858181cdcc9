"""Functions of the application as steps: their arguments and return values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import CoroutineType
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from homing.domain.delivery import FROZEN_ORIGINAL, Delivery
from homing.domain.errors import HomingError, InvalidRequest
from homing.domain.failure import Failure
from homing.domain.message import Email, Event, Json, decode_message, encode_result
from homing.domain.redaction import redact, redact_trace, visible
from homing.engine.work.handler_retry import terminal
from homing.engine.work.steps import FROZEN
from homing.ports import Done, FanOut, Outcome, Work

Function: TypeAlias = Callable[..., Any]
TerminalErrors: TypeAlias = type[Exception] | tuple[type[Exception], ...]

OUTCOMES = (Done, FanOut, Failure)
NOTHING_TO_KEEP = Done()


class HandlerCall(Struct, frozen=True, kw_only=True):
    """The argument of a handler or a stage."""

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
    """Calls one function; its return value is kept as the stage's result."""

    def __init__(self, function: Function, terminal_errors: TerminalErrors = ()) -> None:
        self._function = function
        self._terminal_errors = terminal_errors

    async def __call__(self, work: Work) -> Outcome:
        try:
            returned = self._function(handler_call(work))
            if returned.__class__ is CoroutineType or inspect.isawaitable(returned):
                returned = await returned
        except self._terminal_errors as error:
            return terminal(error)
        return NOTHING_TO_KEEP if returned is None else outcome_of(returned)


def outcome_of(returned: Json) -> Outcome:
    """The return value of a function as the outcome of its stage."""
    if isinstance(returned, Failure):
        return _redacted(returned)
    if isinstance(returned, OUTCOMES):
        return returned
    try:
        return Done(result=encode_result(returned))
    except InvalidRequest as error:
        # Its next call would return the same kind of value.
        detail = f"what the function returned {error.problem}"
        return Failure("result_not_storable", "reject", detail=detail)


def _redacted(failure: Failure) -> Failure:
    """A function may pass on any text that it has met. Names and codes are compared, so they stay
    as they are, but for characters that a store or a log line cannot have."""
    return replace(
        failure,
        error_class=visible(failure.error_class),
        code=None if failure.code is None else visible(failure.code),
        detail=redact(failure.detail),
        trace=None if failure.trace is None else redact_trace(failure.trace),
        refused={
            address: replace(
                refusal,
                code=None if refusal.code is None else visible(refusal.code),
                detail=None if refusal.detail is None else redact(refusal.detail),
            )
            for address, refusal in failure.refused.items()
        },
    )


def handler_call(work: Work) -> HandlerCall:
    delivery, content = work.delivery, work.content
    message = decode_message(content.payload)
    if isinstance(message, Event):
        name = message.type
    elif isinstance(message, Email):
        raise HomingError("this payload is not an event or a job")
    else:
        name = message.name
    results, metadata = content.results, delivery.metadata
    return HandlerCall(
        id=event_id(delivery) if metadata else delivery.id,
        name=name,
        data=message.data,
        key=delivery.key,
        source=delivery.source,
        attempt=delivery.attempts_spent + 1,
        cycle=delivery.cycle,
        metadata=metadata,
        results=_kept_results(results) if results else {},
    )


def event_id(delivery: Delivery) -> str:
    """One of several handlers has a delivery of its own, and sees the event's id."""
    if "handler" in delivery.metadata and delivery.parent_id is not None:
        return delivery.parent_id
    return delivery.id


def _kept_results(results: Mapping[str, bytes]) -> dict[str, Json]:
    return {
        stage: msgspec.json.decode(result)
        for stage, result in results.items()
        if stage not in (FROZEN, FROZEN_ORIGINAL) and not stage.startswith("payload.")
    }

"""The route of events: handled in their own row, or in one row for each of several handlers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from homing.assemblies.events.retry import (
    DEFAULT_RETRY_POLICY,
    RetryPolicy,
    invalid_payload,
    judge,
)
from homing.domain.delivery import Delivery
from homing.domain.message import Event, Json
from homing.domain.policy import Plan, Stage
from homing.engine.admission import Request
from homing.engine.desk import Desk
from homing.engine.handlers import HANDLE, Assignment, Handlers
from homing.engine.labels import Label, LabelTable
from homing.engine.route import Route

HANDLE_TIMEOUT_S = 30.0

WasHandled: TypeAlias = Callable[[str, Assignment], Awaitable[bool]]
"""Asks the consumer's own record, by handler name, whether an event's work is done already."""

LABELS = LabelTable(
    (
        Label("pending", "pending"),
        Label("in_flight", "in_flight"),
        Label("in_flight", "waiting"),
        Label("delivered", "delivered"),
        Label("delivered", "suppressed"),
        Label("failed", "failed"),
        # Dismissed is a mark beside the status: `deleted_at`.
        Label("failed", "dismissed"),
    )
)


class Subscription(Struct, frozen=True, kw_only=True):
    """One handler of one type of event. `validate` reads the payload before the handler does."""

    event_type: str
    name: str
    handler: Callable[[Assignment], Any]
    policy: RetryPolicy = DEFAULT_RETRY_POLICY
    validate: Callable[[Json], Json] | None = None
    timeout_s: float = HANDLE_TIMEOUT_S


class EventFields(Struct, frozen=True, kw_only=True):
    """What a producer writes into its outbox."""

    event_id: str
    event_type: str
    payload: Json
    source: str
    target: str
    idempotency_key: str
    generation: int = 0


def request_for(fields: EventFields) -> Request:
    return Request(
        message=Event(fields.event_type, fields.payload),
        key=fields.idempotency_key,
        source=fields.source,
        delivery_id=fields.event_id,
        generation=fields.generation,
        metadata={"target": fields.target},
    )


def events_route(
    subscriptions: Iterable[Subscription],
    *,
    generation: int = 0,
    was_handled: WasHandled | None = None,
) -> Route:
    """`generation` is that of this process's code: other generations' events are left alone."""
    handlers = Handlers()
    for subscription in subscriptions:
        handlers.add(
            subscription.event_type,
            _in_phases(subscription, was_handled),
            name=subscription.name,
            retry=subscription.policy.retry,
            timeout_s=subscription.timeout_s,
            terminal_errors=subscription.policy.terminal_errors,
        )
    return replace(
        handlers.route(generation),
        # The plan of an event with several handlers: each of them alerts for itself.
        plan=Plan(
            stages=(Stage(name=HANDLE, retry=DEFAULT_RETRY_POLICY.retry),), notify_on_failed=()
        ),
        needs_key=True,
        judge=judge,
        verbs=frozenset({"replay", "dismiss", "restore", "annotate"}),
        labels=LABELS,
    )


def _in_phases(
    subscription: Subscription, was_handled: WasHandled | None
) -> Callable[[Assignment], Awaitable[Any]]:
    async def call(event: Assignment) -> Any:
        if subscription.validate is not None:
            try:
                event = replace(event, data=subscription.validate(event.data))
            except ValueError as error:
                return invalid_payload(error)
        if was_handled is not None and await was_handled(subscription.name, event):
            return None
        returned = subscription.handler(event)
        return await returned if inspect.isawaitable(returned) else returned

    return call


async def replay(desk: Desk, event_id: str, *, new_generation: int, replayed_by: str) -> Delivery:
    """The caller states the generation: replaying means handling the event with today's code."""
    return await desk.replay(
        event_id, actor=replayed_by, reason="outbox_replay", generation=new_generation
    )

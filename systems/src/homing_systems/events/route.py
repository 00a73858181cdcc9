"""The route of events: handled in their own row, or in one row for each of several handlers."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from homing import InvalidRequest, Request, Route
from homing.domain.delivery import Delivery
from homing.domain.message import Event, Json
from homing.domain.policy import Retention
from homing.plugins import Handlers, Label, LabelTable, Operations
from homing.ports import Store

# Above this many dead letters in a week, plain SQL is no longer enough to triage them.
MOST_FAILED_A_WEEK = 10

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


class EventFields(Struct, frozen=True, kw_only=True):
    """What a producer writes into its outbox."""

    event_id: str
    event_type: str
    payload: Json
    source: str
    target: str | None
    idempotency_key: str
    generation: int = 0


def request_for(fields: EventFields) -> Request:
    return Request(
        message=Event(fields.event_type, fields.payload),
        key=fields.idempotency_key,
        source=fields.source,
        delivery_id=fields.event_id,
        generation=fields.generation,
        metadata={} if fields.target is None else {"target": fields.target},
    )


def events_route(handlers: Handlers, *, generation: int = 0, store: Store | None = None) -> Route:
    """`generation` is that of this process's code: other generations' events are left alone."""
    return replace(as_outbox(handlers.route(generation, store)), needs_key=True)


def as_outbox(route: Route) -> Route:
    """An application's own route of events, shown and repaired as the outbox is."""
    return replace(
        route.keeping(Retention.forever()),
        verbs=frozenset({"replay", "dismiss", "restore", "annotate"}),
        labels=LABELS,
        most_failed_a_week=MOST_FAILED_A_WEEK,
    )


async def replay(
    ops: Operations, event_id: str, *, new_generation: int, replayed_by: str
) -> Delivery:
    """The caller states the generation: replaying means handling the event with today's code."""
    try:
        return await ops.replay(
            event_id, actor=replayed_by, reason="outbox_replay", generation=new_generation
        )
    except InvalidRequest as error:
        # The caller knows the actor by the document's name.
        field = "replayed_by" if error.field == "actor" else error.field
        raise InvalidRequest(field, error.problem) from None

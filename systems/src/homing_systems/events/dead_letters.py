"""The dead letters of the outbox: listed, shown in detail, and replayed in place.

The names are those that the design reserves for tools of operators and agents.
"""

from __future__ import annotations

from typing import Any

import msgspec

from homing import DeliveryFilter, Homing
from homing.domain.delivery import Delivery
from homing.domain.errors import NotFound
from homing.plugins import EVENT_ROUTE, failed_since, handler_names, now_ms
from homing.ports import Query
from homing.stores.layout import Record, Stored
from homing_systems.events.record import LAYOUT
from homing_systems.events.route import replay

MOST_HANDLERS = 1000
WEEK_MS = 7 * 86_400_000


async def list_dlq_events(homing: Homing, limit: int = 50) -> dict[str, Any]:
    """The newest failed events, and how many there are of the last seven days."""
    failed = DeliveryFilter(route=EVENT_ROUTE, state="failed")
    page = await homing.ops.list(failed, limit=limit)
    recent = await failed_since(homing.store, EVENT_ROUTE, now_ms(homing) - WEEK_MS)
    return {
        "events": [await _row(homing, delivery) for delivery in page.items],
        "failed_in_7_days": recent,
    }


async def get_dlq_event_detail(homing: Homing, event_id: str) -> dict[str, Any]:
    """One event as a row of the outbox, those of its handlers, and all attempts."""
    event = await _found(homing, event_id)
    children = Query(route=EVENT_ROUTE, parent_id=event.id)
    rows = (await homing.store.page(children, limit=MOST_HANDLERS)).items
    names = await handler_names(homing.store, [event, *rows])
    return {
        "event": await _row(homing, event),
        "handlers": [await _row(homing, row) for row in rows],
        "attempts": [
            {"handler_name": names.get(row.id), **msgspec.structs.asdict(attempt)}
            for row in (event, *rows)
            for attempt in await homing.ops.attempts(row.id)
        ],
    }


async def replay_dlq_event(
    homing: Homing, event_id: str, *, new_generation: int, replayed_by: str
) -> Record:
    """The row after the replay."""
    await _found(homing, event_id)
    after = await replay(
        homing.ops, event_id, new_generation=new_generation, replayed_by=replayed_by
    )
    return await _row(homing, after)


async def _found(homing: Homing, event_id: str) -> Delivery:
    delivery = await homing.store.get(event_id)
    if delivery is None or delivery.route != EVENT_ROUTE:
        raise NotFound(f"no event {event_id}")
    return delivery


async def _row(homing: Homing, delivery: Delivery) -> Record:
    """As `core.outbox` shows it, with the handler's name and the size of the history."""
    content = await homing.store.content(delivery.id)
    if content is None:
        raise NotFound(f"no event {delivery.id}")
    row = LAYOUT.record(Stored(delivery, content, ())) or {}
    history = row["failure_history"]
    return {
        **row,
        "handler_name": (await handler_names(homing.store, [delivery])).get(delivery.id),
        "history_entries": len(history),
        "history_bytes": len(msgspec.json.encode(history)) if history else 0,
    }

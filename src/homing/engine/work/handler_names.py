"""The names of handlers that are the only one for their type of event.

An event with several handlers has a child for each, which has the handler's name. An event with one
is handled in its own record, whose plain success must stay cheap to store. So a process with
handlers stores their names as facts, once, when it starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from homing.domain.delivery import Delivery, Fact
from homing.engine.queues import queue_part
from homing.engine.work.handlers import EVENT_ROUTE
from homing.ports import Store

HANDLER = "handler"


async def store_names(store: Store, alone: Mapping[str, str], now_ms: int) -> None:
    """Add those that are not stored yet; `alone` is the handler's name by type of event."""
    if not alone:
        return
    known = {fact.key for fact in await store.facts(HANDLER)}
    told = [
        Fact(HANDLER, key, now_ms, {"name": name})
        for event_type, name in alone.items()
        if (key := f"{queue_part(event_type)}/{queue_part(name)}") not in known
    ]
    if told:
        await store.save([], told)


async def handler_names(store: Store, deliveries: Iterable[Delivery]) -> dict[str, str]:
    """By id. After a handler was renamed both names are returned: either may have handled it."""
    by_topic: dict[str, str] = {}
    names: dict[str, str] = {}
    for delivery in deliveries:
        if delivery.route != EVENT_ROUTE or delivery.fanned_out:
            continue
        name, topic = delivery.metadata.get("handler"), delivery.topic
        if name is None and topic is not None:
            if topic not in by_topic:
                facts = await store.facts(HANDLER, f"{queue_part(topic)}/")
                by_topic[topic] = " or ".join(str((fact.value or {})["name"]) for fact in facts)
            name = by_topic[topic]
        if name:
            names[delivery.id] = name
    return names

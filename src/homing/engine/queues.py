"""Queues: which workers may work on a delivery.

A queue begins with the name of its one route, so two routes never have the same queue.
"""

from __future__ import annotations

import functools

from homing.domain.delivery import Delivery

# `/` ends the route's name and `@` begins the generation; inside names they are escaped.
_ESCAPES = str.maketrans({"%": "%25", "/": "%2F", "@": "%40"})


@functools.lru_cache(maxsize=1024)
def queue_part(text: str) -> str:
    """Text of any kind (an event type, a handler's name) as one part of a queue."""
    if "/" in text or "@" in text or "%" in text:
        return text.translate(_ESCAPES)
    return text


def queue_name(route: str, suffix: str = "", generation: int = 0) -> str:
    """A queue of generation 0 is for any worker, others are for workers of that generation."""
    queue = queue_part(route)
    if suffix:
        queue = f"{queue}/{suffix}"
    return f"{queue}@{generation}" if generation else queue


def queue_in_generation(delivery: Delivery, generation: int) -> str:
    """The queue of the same work for workers of another generation."""
    queue = delivery.queue
    if delivery.generation:
        queue = queue.removesuffix(f"@{delivery.generation}")
    return f"{queue}@{generation}" if generation else queue


def route_of(queue: str) -> str:
    """The route whose queue it is."""
    name = queue.partition("/")[0].partition("@")[0]
    return name.replace("%40", "@").replace("%2F", "/").replace("%25", "%")

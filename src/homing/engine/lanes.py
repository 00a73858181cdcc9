"""Lanes: which workers may work on a delivery.

A lane begins with the name of the one route it belongs to, so two routes never have the same lane.
"""

from __future__ import annotations

import functools

from homing.domain.delivery import Delivery

# `/` ends the route's name and `@` begins the generation; inside names they are escaped.
_ESCAPES = str.maketrans({"%": "%25", "/": "%2F", "@": "%40"})


@functools.lru_cache(maxsize=1024)
def lane_part(text: str) -> str:
    """Text of any kind (an event type, a handler's name) as one part of a lane."""
    if "/" in text or "@" in text or "%" in text:
        return text.translate(_ESCAPES)
    return text


def lane_name(route: str, suffix: str = "", generation: int = 0) -> str:
    """A lane of generation 0 is for any worker, others are for workers of that generation."""
    lane = lane_part(route)
    if suffix:
        lane = f"{lane}/{suffix}"
    return f"{lane}@{generation}" if generation else lane


def lane_in_generation(delivery: Delivery, generation: int) -> str:
    """The lane of the same work for workers of another generation."""
    lane = delivery.lane
    if delivery.generation:
        lane = lane.removesuffix(f"@{delivery.generation}")
    return f"{lane}@{generation}" if generation else lane

"""Which deliveries a query means, and how they are grouped."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any

from homing.domain.delivery import Delivery, Fact
from homing.ports import Facet, FactCursor, FactOrder, GroupBy, Query

_EQUAL_FIELDS = ("route", "source", "key", "topic", "parent_id", "clone_of", "holder")

GROUPS: dict[GroupBy, Callable[[Delivery], str]] = {
    "route": lambda d: d.route,
    "state": lambda d: d.state,
    "failed_because": lambda d: d.failed_because or "",
    "error_class": lambda d: error_class(d) or "",
    "stage": lambda d: d.stage,
    "required": lambda d: "true" if d.required else "false",
    "lane": lambda d: d.lane,
    "source": lambda d: d.source,
}


def error_class(delivery: Delivery) -> str | None:
    return delivery.failure.error_class if delivery.failure is not None else None


def predicate(query: Query) -> Callable[[Delivery], bool]:
    """A test made for this query: only the conditions that it sets."""
    tests: list[Callable[[Delivery], bool]] = []
    wanted = tuple(
        (name, value) for name in _EQUAL_FIELDS if (value := getattr(query, name)) is not None
    )
    if wanted:
        tests.append(lambda d: all(getattr(d, name) == value for name, value in wanted))
    if query.recipient is not None:
        tests.append(lambda d: any(r.address == query.recipient for r in d.recipients))
    if query.error_class is not None:
        tests.append(lambda d: error_class(d) == query.error_class)
    if query.owing is not None:
        tests.append(lambda d: bool(d.notices_due) is query.owing)
    if query.top_only:
        tests.append(lambda d: d.parent_id is None)
    if (facets := query.facets) is not None:
        tests.append(lambda d: any(fits(facet, d) for facet in facets))
    if (from_ms := query.created_from_ms) is not None:
        tests.append(lambda d: d.created_at_ms >= from_ms)
    if (before_ms := query.created_before_ms) is not None:
        tests.append(lambda d: d.created_at_ms < before_ms)
    return lambda d: all(test(d) for test in tests)


def fits(facet: Facet, delivery: Delivery) -> bool:
    return (
        facet.state == delivery.state
        and facet.stage in (None, delivery.stage)
        and facet.attempted in (None, delivery.attempts_spent > 0)
        and facet.failed_because in (None, delivery.failed_because)
        and facet.phase in (None, delivery.phase)
    )


def listed(
    facts: Iterable[Fact], limit: int, after: FactCursor | None, order: FactOrder
) -> list[Fact]:
    """The next ones behind `after`, in this order."""

    def place(fact: Fact | FactCursor) -> Any:
        return fact.key if order == "key" else (fact.at_ms, fact.key)

    if order == "newest":
        below = facts if after is None else (f for f in facts if place(f) < place(after))
        return heapq.nlargest(limit, below, key=place)
    above = facts if after is None else (f for f in facts if place(f) > place(after))
    return heapq.nsmallest(limit, above, key=place)

"""The meaning of queries, groups and listings, once for all stores.

A store with its records in memory uses the functions; one with a query language translates
the tables.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from homing.domain.delivery import Delivery, Fact
from homing.ports import Cursor, Facet, FactCursor, FactOrder, GroupBy, Page, Query

EQUAL_FIELDS = ("route", "source", "key", "topic", "parent_id", "clone_of", "holder")
"""Conditions of a Query that compare the field of the same name."""

FACET_FIELDS = ("route", "stage", "attempted", "failed_because", "phase")
"""What a Facet may ask for beside the state."""


def no_children(_parent_id: str) -> Iterable[Delivery]:
    """For a store that is asked about deliveries without children."""
    return ()


def group_words(delivery: Delivery, by: tuple[GroupBy, ...]) -> tuple[str, ...]:
    """The group that a delivery is counted in."""
    return tuple([group_word(field_of(delivery, name)) for name in by])


def group_word(value: object) -> str:
    """A missing value is the empty text, and a flag is `true` or `false`."""
    if value is None:
        return ""
    return value if isinstance(value, str) else ("true" if value else "false")


def field_of(delivery: Delivery, name: str) -> Any:
    """A field by its name in queries, facets and groups; two of them are fields of a field."""
    if name == "error_class":
        return error_class(delivery)
    if name == "attempted":
        return delivery.attempts_spent > 0
    return getattr(delivery, name)


def error_class(delivery: Delivery) -> str | None:
    """The class of its last failure, if it has one."""
    return delivery.failure.error_class if delivery.failure is not None else None


def predicate(
    query: Query, children_of: Callable[[str], Iterable[Delivery]]
) -> Callable[[Delivery], bool]:
    """A predicate for this query, with only the conditions that it sets."""
    tests: list[Callable[[Delivery], bool]] = []
    wanted = tuple(
        (name, value) for name in EQUAL_FIELDS if (value := getattr(query, name)) is not None
    )
    if wanted:
        tests.append(lambda d: all(getattr(d, name) == value for name, value in wanted))
    if query.recipient is not None:
        tests.append(lambda d: any(r.address == query.recipient for r in d.recipients))
    if query.error_class is not None:
        tests.append(lambda d: error_class(d) == query.error_class)
    if query.notices_due is not None:
        tests.append(lambda d: bool(d.notices_due) is query.notices_due)
    if query.top_only:
        tests.append(lambda d: d.parent_id is None)
    if (facets := query.facets) is not None:
        tests.append(lambda d: any(fits(facet, d, children_of) for facet in facets))
    if (from_ms := query.created_from_ms) is not None:
        tests.append(lambda d: d.created_at_ms >= from_ms)
    if (before_ms := query.created_before_ms) is not None:
        tests.append(lambda d: d.created_at_ms < before_ms)
    if (since_ms := query.updated_from_ms) is not None:
        tests.append(lambda d: d.updated_at_ms >= since_ms)
    return lambda d: all(test(d) for test in tests)


def fits(
    facet: Facet,
    delivery: Delivery,
    children_of: Callable[[str], Iterable[Delivery]] = no_children,
) -> bool:
    """Whether the delivery is one that the facet describes."""
    if facet.state != delivery.state or delivery.route in facet.except_routes:
        return False
    if facet.retrying_children is not None:
        retrying = any(is_retrying(child) for child in children_of(delivery.id))
        if retrying != facet.retrying_children:
            return False
    return all(getattr(facet, name) in (None, field_of(delivery, name)) for name in FACET_FIELDS)


def is_retrying(delivery: Delivery) -> bool:
    """It waits to be tried again after a failed attempt."""
    return delivery.state == "pending" and delivery.attempts_spent > 0


def paged(deliveries: Iterable[Delivery], cursor: Cursor | None, limit: int) -> Page:
    """The page of these deliveries that follows the cursor."""
    if cursor is None:
        return page_of(heapq.nlargest(limit + 1, deliveries, key=_place), None, limit)
    seen = cursor.created_at_ms, cursor.delivery_id
    if cursor.newer:
        above = (delivery for delivery in deliveries if _place(delivery) > seen)
        return page_of(heapq.nsmallest(limit + 1, above, key=_place), cursor, limit)
    below = (delivery for delivery in deliveries if _place(delivery) < seen)
    return page_of(heapq.nlargest(limit + 1, below, key=_place), cursor, limit)


def _place(delivery: Delivery) -> tuple[int, str]:
    return delivery.created_at_ms, delivery.id


def page_of(found: Sequence[Delivery], cursor: Cursor | None, limit: int) -> Page:
    """The page from deliveries after the cursor: nearest first, with one more than the limit if
    there are more."""
    near, more = found[:limit], len(found) > limit
    if not near:
        return Page(())
    newer = cursor is not None and cursor.newer
    items = tuple(near[::-1] if newer else near)
    first, last = items[0], items[-1]
    # The delivery that the cursor was made from comes before the page.
    has_older, has_newer = (True, more) if newer else (more, cursor is not None)
    return Page(
        items,
        Cursor(last.created_at_ms, last.id) if has_older else None,
        Cursor(first.created_at_ms, first.id, newer=True) if has_newer else None,
    )


def widths(look_at: int) -> tuple[int, ...]:
    """How many are read first, and then: most pages are full after a few."""
    return (look_at // 20, look_at) if look_at >= 1000 else (look_at,)


def page_to_edge(page: Page, cursor: Cursor | None, edge: Cursor | None) -> Page:
    """A page for which nothing beyond the edge was read; None: everything was read."""
    if edge is None:
        return page
    newer = cursor is not None and cursor.newer
    if page.items:
        if newer:
            return page if page.previous else replace(page, previous=edge)
        return page if page.next else replace(page, next=edge)
    back = None
    if cursor is not None:
        back = Cursor(cursor.created_at_ms, cursor.delivery_id, newer=not newer)
    return Page((), back, edge) if newer else Page((), edge, back)


def listed(
    facts: Iterable[Fact], limit: int, after: FactCursor | None, order: FactOrder
) -> list[Fact]:
    """The next facts after `after`, in this order."""

    def place(fact: Fact | FactCursor) -> Any:
        return fact.key if order == "key" else (fact.at_ms, fact.key)

    if order == "newest":
        below = facts if after is None else (f for f in facts if place(f) < place(after))
        return heapq.nlargest(limit, below, key=place)
    above = facts if after is None else (f for f in facts if place(f) > place(after))
    return heapq.nsmallest(limit, above, key=place)

"""A parent and its children, as the store has them.

A child belongs to one payload of its parent. When the parent is amended, its earlier children
stay readable and no longer count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence

from homing.domain.delivery import Delivery, State
from homing.ports import Cursor, Facet, Query, Store

# One page is saved in one write.
CHILDREN_A_PAGE = 200
# An error names no more than these.
HANDLERS_NAMED = 5


def is_current(child: Delivery, parent: Delivery) -> bool:
    """Whether it was made for the payload that its parent has now."""
    return child.parent_payload_no == parent.payload_no


async def pages_of_children(
    store: Store, parent_id: str, states: Sequence[State] | None = None
) -> AsyncIterator[Sequence[Delivery]]:
    """Its children in these states, of every payload, a page at a time."""
    facets = None if states is None else tuple(Facet(state=state) for state in states)
    query = Query(parent_id=parent_id, facets=facets)
    cursor: Cursor | None = None
    while True:
        page = await store.page(query, cursor, CHILDREN_A_PAGE)
        if page.items:
            yield page.items
        cursor = page.next
        if cursor is None:
            return


async def count_children(store: Store, parent: Delivery) -> dict[tuple[str, ...], int]:
    """How many current children it has, by state, `required` and reason of failure."""
    if parent.payload_no == 1:
        return await store.count(
            Query(parent_id=parent.id), by=("state", "required", "failed_because")
        )
    counts: Counter[tuple[str, ...]] = Counter()
    async for page in pages_of_children(store, parent.id):
        counts.update(
            (child.state, "true" if child.required else "false", child.failed_because or "")
            for child in page
            if is_current(child, parent)
        )
    return dict(counts)


async def failed_handlers(store: Store, event: Delivery) -> list[Delivery]:
    """The first of an event's handlers that failed; none for other deliveries."""
    facets = (Facet(state="failed"), Facet(state="dismissed"))
    page = await store.page(Query(parent_id=event.id, facets=facets), None, HANDLERS_NAMED)
    named = [child for child in page.items if child.required and "handler" in child.metadata]
    return sorted(named, key=lambda child: child.metadata["handler"])

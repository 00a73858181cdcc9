"""The data of a memory store, apart from its handles, so that it outlives a simulated restart."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable

from homing.domain.delivery import Attempt, Content, Delivery, Fact, Key
from homing.ports import Query
from homing.stores.memory.due import DueQueue


class MemoryDisk:
    """Everything that is stored, with the few indexes that keep reads from scanning.

    Several handles may share one disk, in one event loop: they are its processes.
    """

    def __init__(self) -> None:
        self.deliveries: dict[str, Delivery] = {}
        self.contents: dict[str, Content] = {}
        self.keys: dict[tuple[str, str], Key] = {}
        # With the route it was written under: an attempt may outlive its delivery.
        self.attempts: dict[str, dict[int, tuple[str, Attempt]]] = {}
        self.facts: dict[str, dict[str, Fact]] = {}
        self.due = DueQueue()
        self.news = 0
        self._waiters: set[asyncio.Future[None]] = set()
        self._children: defaultdict[str, set[str]] = defaultdict(set)
        self._held: defaultdict[str, set[str]] = defaultdict(set)
        self._owing: set[str] = set()

    def put(self, delivery: Delivery) -> None:
        """Write one record over what was there."""
        before = self.deliveries.get(delivery.id)
        self.deliveries[delivery.id] = delivery
        self.due.place(delivery)
        self._index(before, delivery)
        if _may_be_news(before, delivery):
            self.tell()

    def remove(self, delivery_id: str) -> None:
        """Take away a record and what it carries; keys and attempts have lives of their own."""
        before = self.deliveries.pop(delivery_id, None)
        self.contents.pop(delivery_id, None)
        self.due.remove(delivery_id)
        self._index(before, None)

    def note(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            if fact.value is None:
                self.facts.get(fact.kind, {}).pop(fact.key, None)
            else:
                self.facts.setdefault(fact.kind, {})[fact.key] = fact

    def candidates(self, query: Query) -> Iterable[Delivery]:
        """The smallest indexed set that holds every match."""
        if query.parent_id is not None:
            ids = self._children.get(query.parent_id, set())
        elif query.holder is not None:
            ids = self._held.get(query.holder, set())
        elif query.owing:
            ids = self._owing
        else:
            return self.deliveries.values()
        return (self.deliveries[delivery_id] for delivery_id in ids)

    def tell(self) -> None:
        """Wake whoever waits: something may have become due."""
        self.news += 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def hear(self, timeout_s: float) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait((waiter,), timeout=timeout_s)
        finally:
            self._waiters.discard(waiter)

    def _index(self, before: Delivery | None, after: Delivery | None) -> None:
        for delivery, change in ((before, set.discard), (after, set.add)):
            if delivery is None:
                continue
            if delivery.parent_id is not None:
                change(self._children[delivery.parent_id], delivery.id)
            if delivery.holder is not None:
                change(self._held[delivery.holder], delivery.id)
            if delivery.owed:
                change(self._owing, delivery.id)


def _may_be_news(before: Delivery | None, after: Delivery) -> bool:
    """A lease that begins or grows makes nothing due; anything else with a due time may."""
    if after.due_at_ms is None or after.is_terminal:
        return False
    if after.state != "in_flight":
        return True
    if before is None:
        return False
    return before.due_at_ms is None or after.due_at_ms < before.due_at_ms

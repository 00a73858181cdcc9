"""The data of a memory store, separate from its handles: it survives a simulated restart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from homing.domain.delivery import Attempt, Content, Delivery, Fact, Key
from homing.ports import Query
from homing.stores.memory.due import DueQueue
from homing.stores.memory.showing import ShownRecords


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
        self.shown = ShownRecords()
        self.due = DueQueue()
        self.news = 0
        # Dictionaries, not sets: their order is the same in every run of a simulation.
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._children: dict[str, dict[str, None]] = {}
        self._held: dict[str, dict[str, None]] = {}
        self._owing: dict[str, None] = {}

    def put(self, delivery: Delivery) -> None:
        """Write one record over what was there."""
        if delivery.id in self.deliveries:
            self._drop_from_indexes(self.deliveries[delivery.id])
        self.deliveries[delivery.id] = delivery
        self.due.place(delivery)
        if delivery.parent_id is not None or delivery.holder is not None or delivery.notices_due:
            self._add_to_indexes(delivery)

    def remove(self, delivery_id: str) -> None:
        """Remove a record and its content; keys and attempts stay."""
        self._drop_from_indexes(self.deliveries.pop(delivery_id))
        del self.contents[delivery_id]
        self.due.remove(delivery_id)
        self.shown.remove(delivery_id)

    def note(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            if fact.value is None:
                self.facts.get(fact.kind, {}).pop(fact.key, None)
            else:
                self.facts.setdefault(fact.kind, {})[fact.key] = fact

    def children_of(self, parent_id: str) -> Iterable[Delivery]:
        return (self.deliveries[child_id] for child_id in self._children.get(parent_id, {}))

    def candidates(self, query: Query) -> Iterable[Delivery]:
        """The smallest indexed set that holds every match."""
        if query.parent_id is not None:
            ids = self._children.get(query.parent_id, {})
        elif query.holder is not None:
            ids = self._held.get(query.holder, {})
        elif query.owing:
            ids = self._owing
        else:
            return self.deliveries.values()
        return (self.deliveries[delivery_id] for delivery_id in ids)

    def tell(self) -> None:
        """Wake waiting workers: something may have become due."""
        self.news += 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, timeout_s: float) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            await asyncio.wait((waiter,), timeout=timeout_s)
        finally:
            del self._waiters[waiter]

    def _add_to_indexes(self, delivery: Delivery) -> None:
        if delivery.parent_id is not None:
            self._children.setdefault(delivery.parent_id, {})[delivery.id] = None
        if delivery.holder is not None:
            self._held.setdefault(delivery.holder, {})[delivery.id] = None
        if delivery.notices_due:
            self._owing[delivery.id] = None

    def _drop_from_indexes(self, delivery: Delivery) -> None:
        self._owing.pop(delivery.id, None)
        for index, name in ((self._children, delivery.parent_id), (self._held, delivery.holder)):
            if name is not None:
                del index[name][delivery.id]
                if not index[name]:
                    del index[name]

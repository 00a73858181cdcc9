"""What a store holds, in dictionaries with indexes: the data of the memory store, and what a store
that only appends knows of its log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, MutableMapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from homing.domain.delivery import Attempt, Content, Delivery, Fact, Key
from homing.ports import Query
from homing.stores.memory.due import DueQueue
from homing.stores.memory.showing import ShownRecords

NOTHING = Content()
"""The content of a delivery whose payload was purged."""


class LedgerRow(Struct, frozen=True, gc=False, array_like=True):
    """An attempt, with the route it was written under: it may outlive its delivery.

    The garbage collector passes over it and the dictionary it is in: there may be millions.
    """

    route: str
    attempt: Attempt


class MemoryDisk:
    """Everything that is stored, with the few indexes that keep reads from scanning.

    Several handles may share one disk, in one event loop: they are its processes.
    """

    def __init__(self) -> None:
        self.deliveries: MutableMapping[str, Delivery] = {}
        self._contents: dict[str, Content] = {}
        self.contents: Mapping[str, Content] = self._contents
        self.keys: MutableMapping[tuple[str, str], Key] = {}
        self.attempts: dict[str, dict[int, LedgerRow]] = {}
        self.facts: dict[str, dict[str, Fact]] = {}
        self.shown = ShownRecords()
        self.due = DueQueue()
        self.news = 0
        # Set by writes after which something may be due; waiters hear of it once a call.
        self.may_be_due = False
        # Dictionaries, not sets: their order is the same in every run of a simulation.
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._children: dict[str, dict[str, None]] = {}
        self._held: dict[str, dict[str, None]] = {}
        self._with_notices_due: dict[str, None] = {}

    def put(self, delivery: Delivery) -> None:
        """Write one record over what was there."""
        deliveries, delivery_id = self.deliveries, delivery.id
        if delivery_id in deliveries:
            before = deliveries[delivery_id]
            if before.due_at_ms is not None:
                self.due.remove(before)
            if before.parent_id is not None or before.holder is not None or before.notices_due:
                self._drop_from_indexes(before)
        deliveries[delivery_id] = delivery
        if delivery.due_at_ms is not None:
            self.due.add(delivery)
        if delivery.parent_id is not None or delivery.holder is not None or delivery.notices_due:
            self._add_to_indexes(delivery)

    def put_claimed(
        self, before: Sequence[Delivery], after: Sequence[Delivery], holder: str, until_ms: int
    ) -> None:
        """Write what one claim has taken out of the due queue, over what was there."""
        deliveries = self.deliveries
        for delivery in before:
            if delivery.holder is not None:
                _drop(self._held, delivery.holder, delivery.id)
        held = self._held.setdefault(holder, {})
        for delivery in after:
            deliveries[delivery.id] = delivery
            held[delivery.id] = None
        self.due.lease(after, until_ms)

    def remove(self, delivery_id: str) -> None:
        """Remove a record and its content; its keys and attempts stay."""
        before = self.deliveries.pop(delivery_id)
        self._drop_from_indexes(before)
        self.due.remove(before)
        self._contents.pop(delivery_id, None)
        self.shown.remove(delivery_id)

    def renew(self, delivery_id: str, until_ms: int) -> None:
        """A longer lease for a stored delivery; its version stays."""
        self.put(replace(self.deliveries[delivery_id], due_at_ms=until_ms))

    def put_content(self, delivery_id: str, content: Content) -> None:
        self._contents[delivery_id] = content

    def has_content(self, delivery_id: str) -> bool:
        return self.contents[delivery_id] != NOTHING

    def payload_sizes(self, delivery_ids: Iterable[str]) -> list[int]:
        contents = self.contents
        return [len(contents[delivery_id].payload) for delivery_id in delivery_ids]

    def put_key(self, key: Key) -> None:
        self.keys[key.source, key.key] = key

    def drop_key(self, source: str, key: str) -> None:
        if (source, key) in self.keys:
            del self.keys[source, key]

    def put_attempts(self, route: str, attempts: Iterable[Attempt]) -> None:
        ledgers = self.attempts
        for attempt in attempts:
            delivery_id = attempt.delivery_id
            if delivery_id in ledgers:
                ledgers[delivery_id][attempt.number] = LedgerRow(route, attempt)
            else:
                ledgers[delivery_id] = {attempt.number: LedgerRow(route, attempt)}

    def drop_attempt(self, delivery_id: str, number: int) -> None:
        ledger = self.attempts.get(delivery_id, {})
        ledger.pop(number, None)
        if not ledger:
            self.attempts.pop(delivery_id, None)

    def note(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            if fact.value is None:
                self.drop_fact(fact.kind, fact.key)
            else:
                self.put_fact(fact)

    def put_fact(self, fact: Fact) -> None:
        self.facts.setdefault(fact.kind, {})[fact.key] = fact

    def drop_fact(self, kind: str, key: str) -> None:
        self.facts.get(kind, {}).pop(key, None)

    def children_of(self, parent_id: str) -> Iterable[Delivery]:
        return (self.deliveries[child_id] for child_id in self._children.get(parent_id, {}))

    def candidates(self, query: Query) -> Iterable[Delivery]:
        """The smallest indexed set that holds every match."""
        if query.parent_id is not None:
            ids = self._children.get(query.parent_id, {})
        elif query.holder is not None:
            ids = self._held.get(query.holder, {})
        elif query.notices_due:
            ids = self._with_notices_due
        else:
            return self.deliveries.values()
        return (self.deliveries[delivery_id] for delivery_id in ids)

    def tell(self) -> None:
        """Wake waiting workers, if something may have become due."""
        if not self.may_be_due:
            return
        self.may_be_due = False
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
            self._with_notices_due[delivery.id] = None

    def _drop_from_indexes(self, delivery: Delivery) -> None:
        if delivery.parent_id is not None:
            _drop(self._children, delivery.parent_id, delivery.id)
        if delivery.holder is not None:
            held = self._held[delivery.holder]
            del held[delivery.id]
            if not held:
                del self._held[delivery.holder]
        if delivery.notices_due:
            del self._with_notices_due[delivery.id]


def _drop(index: dict[str, dict[str, None]], name: str, delivery_id: str) -> None:
    ids = index[name]
    del ids[delivery_id]
    if not ids:
        del index[name]

"""The operations as one caller may see their results: what REST, console and MCP are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from homing.domain.delivery import Content, Delivery, Fact
from homing.domain.redaction import mask_addresses
from homing.engine.ops.bulk import BulkActions
from homing.engine.ops.delivery_filter import DeliveryFilter
from homing.engine.ops.operations import Operations
from homing.engine.ops.views import DeliveryView, delivery_view
from homing.engine.work.handler_names import handler_names
from homing.ports import Cursor, Page, Query


class CallerOperations(Operations):
    """The operations of one caller, with what surfaces need besides. Who does not see personal data
    is given masked records alone, also by verbs."""

    @classmethod
    def of(cls, ops: Operations, *, sees_personal_data: bool) -> Self:
        """Those of a caller who may see personal data or may not."""
        other = cls.__new__(cls)
        other.__dict__.update(ops.__dict__)
        other.sees_personal_data = sees_personal_data
        return other

    async def page(
        self, query: Query, cursor: Cursor | None = None, limit: int = 50, *, bounded: bool = False
    ) -> Page:
        """As `list`, by the query of a store."""
        return await self._page(query, cursor, limit, bounded=bounded)

    async def query(self, chosen: DeliveryFilter) -> Query:
        """What a filter means to the store. InvalidRequest names a condition that is wrong; it is
        PersonalDataHidden to ask for an address that one may not see."""
        return await self._query(chosen)

    def paused(self, route: str) -> Fact | None:
        """Since when, by whom and why a route is paused; None: it is not."""
        return self._paused(route)

    def text(self, said: str) -> str:
        """What a server or a program has said, which may name an address."""
        return self._seen(said, mask_addresses)

    async def show_many(self, delivery_ids: Sequence[str]) -> Sequence[Delivery]:
        """Those of these deliveries that exist, in the order given."""
        found = await self._store.get_many(delivery_ids)
        return self._deliveries([each for each in found if each is not None])

    async def count(self, query: Query) -> int:
        """How many deliveries match the query of a store."""
        return sum((await self._store.count(query)).values())

    def view(self, delivery: Delivery, handler: str | None = None) -> DeliveryView:
        """How it is shown; `handler` is the name of an event's only handler."""
        return delivery_view(self._delivery(delivery), self._routes.get(delivery.route), handler)

    async def views(self, deliveries: Sequence[Delivery]) -> Sequence[DeliveryView]:
        """How they are shown, with the names of their handlers."""
        handlers = await handler_names(self._store, deliveries)
        return [self.view(each, handlers.get(each.id)) for each in deliveries]

    async def content(self, delivery_id: str) -> Content | None:
        """What a delivery carries; None: there is no such delivery, or it is gone."""
        self._demand_personal_data("see contents")
        return await self._store.content(delivery_id)


class CallerBulk(BulkActions):
    """Bulk actions of one caller."""

    @classmethod
    def of(cls, bulk: BulkActions, ops: CallerOperations) -> Self:
        """The same actions, which read as these operations do."""
        other = cls.__new__(cls)
        other.__dict__.update(bulk.__dict__)
        other._ops = ops
        return other

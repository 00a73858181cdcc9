"""The routes of one process: those it works on, and those of others that it reads and repairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

from homing.domain.delivery import Delivery
from homing.domain.policy import Retention
from homing.engine.route import Route, routes_by_name
from homing.engine.work.handlers import EVENT_ROUTE, Handlers
from homing.engine.work.providers import providers_of
from homing.ports import Provider, Store


class RouteTable:
    """`handlers` make the route of events, unless another one was given for them."""

    def __init__(self, routes: Sequence[Route], known: Sequence[Route], handlers: Handlers) -> None:
        self._own = routes_by_name(routes)
        self._known = {route.name: route for route in known if route.name not in self._own}
        self._handlers = handlers
        self._adaptations: list[Callable[[Route], Route]] = []

    @property
    def own(self) -> dict[str, Route]:
        """Those that are worked on here, by name, but for that of the handlers."""
        return self._own

    @property
    def known(self) -> list[Route]:
        """Those that are only read and repaired here."""
        return [route for route in self._known.values() if not self.works_on(route.name)]

    @property
    def providers(self) -> list[Provider]:
        """Of the routes that are worked on here, each once."""
        return providers_of(*self._own.values())

    def add(self, route: Route) -> None:
        self._own = routes_by_name((*self._own.values(), route))

    def adapt(self, change: Callable[[Route], Route]) -> None:
        """Every route that is worked on here goes through `change`."""
        self._adaptations.append(change)

    def replacing(self, route: Route) -> RouteTable:
        """A copy in which this route stands for the one of its name."""
        changed = copy(self)
        changed._own = {**self._own, route.name: route}
        return changed

    def works_on(self, name: str) -> bool:
        return name in self._own or (name == EVENT_ROUTE and self._works_on_events())

    def to_work_on(self, generation: int, store: Store) -> tuple[Route, ...]:
        routes = list(self._own.values())
        if self._works_on_events():
            routes.insert(0, self._handlers.route(generation, store))
        for change in self._adaptations:
            routes = [change(route) for route in routes]
        return tuple(routes)

    def retention_of(self, delivery: Delivery) -> Retention:
        route = self._own.get(delivery.route) or self._known.get(delivery.route)
        return Retention.forever() if route is None else route.plan_of(delivery).retention

    def _works_on_events(self) -> bool:
        is_given = EVENT_ROUTE in self._own or EVENT_ROUTE in self._known
        return bool(self._handlers) or not is_given

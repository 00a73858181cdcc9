"""The store of a program, with what assemblies keep in it beside the engine's own records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from homing.assembly import Assembly
from homing.domain.delivery import Delivery
from homing.domain.errors import SettingsError
from homing.domain.policy import Retention
from homing.engine.route import Route
from homing.installed import all_installed
from homing.ports import Showing, Store, TakesSqlFiles
from homing.settings import Settings
from homing.stores.projecting import ShapeProjection
from homing.urls import store_from_url


def store_for(general: Settings, assembly: Assembly[Any], routes: Sequence[Route]) -> Store:
    """Nothing is opened yet. `routes` are all that are known, for how long records are kept."""
    store = store_from_url(general.store)
    package = assembly.sql_files.get(urlsplit(general.store).scheme)
    if package is not None:
        if not isinstance(store, TakesSqlFiles):
            raise SettingsError("store", f"takes no SQL files, and {assembly.name} has some")
        store.add_sql_files(assembly.name, package)
    # Of all assemblies: a verb used here on a delivery of another one changes its records too.
    shapes = {
        route: shape
        for each in (*all_installed().assemblies, assembly)
        for route, shape in each.shapes.items()
    }
    if shapes and isinstance(store, Showing):
        by_name = {route.name: route for route in routes}
        store.show(ShapeProjection(shapes, lambda delivery: _retention(by_name, delivery)))
    return store


def _retention(routes: Mapping[str, Route], delivery: Delivery) -> Retention:
    route = routes.get(delivery.route)
    return Retention() if route is None else route.plan_of(delivery).retention

"""A status word as a filter: on each route, the states that the route shows as that word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import get_args

from msgspec.structs import replace

from homing.domain.delivery import State
from homing.engine.ops.labels import ENGINE_LABELS
from homing.engine.route import Route
from homing.ports import Facet


def facets_of(
    word: str, routes: Mapping[str, Route], route_name: str | None = None
) -> tuple[Facet, ...]:
    """Empty if no route has the word. Deliveries of unknown routes have the engine's words."""
    if route_name is not None:
        route = routes.get(route_name)
        return _by_state(word) if route is None else tuple(_of(route, word))
    by_route = {name: tuple(_of(route, word)) for name, route in routes.items()}
    if not any(by_route.values()):
        return ()
    common = _by_state(word)
    apart = {name: facets for name, facets in by_route.items() if facets != common}
    return (
        *(replace(facet, except_routes=tuple(sorted(apart))) for facet in common),
        *(replace(facet, route=name) for name, facets in apart.items() for facet in facets),
    )


def status_words(routes: Mapping[str, Route], route_name: str | None = None) -> list[str]:
    """The words that a filter accepts, on this route or on all."""
    chosen = [route for name, route in routes.items() if route_name in (None, name)]
    tables = [route.labels for route in chosen] or [ENGINE_LABELS]
    return sorted({word for table in tables for word in table.words() if word})


def _by_state(word: str) -> tuple[Facet, ...]:
    return tuple(Facet(state=state) for state in get_args(State) if state == word)


def _of(route: Route, word: str) -> Iterator[Facet]:
    """The route's facets of a status word; a state that always has it is one facet."""
    stages = tuple(dict.fromkeys(stage.name for plan in route.all_plans for stage in plan.stages))
    found = route.labels.facets(word, stages)
    whole = {facet.state: 0 for facet in found}
    for row in route.labels.rows:
        if row.state in whole and row.word != word:
            whole.pop(row.state)
    for state, facets in groupby(found, key=lambda facet: facet.state):
        if state in whole:
            yield Facet(state=state)
        else:
            yield from facets

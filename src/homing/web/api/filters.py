"""Filters: from a query string or a body to the query of a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast, get_args

from msgspec.structs import replace

from homing.content.addresses import as_stored
from homing.domain.delivery import FailedBecause, State
from homing.engine.ops.labels import ENGINE_LABELS
from homing.engine.ops.status_words import facets_of
from homing.engine.route import Route
from homing.ports import Facet, Query
from homing.web.api.schemas import Filter
from homing.web.http.problems import BadRequest
from homing.web.http.reading import whole_number

TIMES = ("from_created_at_ms", "to_created_at_ms")
WORDS: dict[str, tuple[str, ...]] = {
    "failed_because": get_args(FailedBecause),
    "state": get_args(State),
}


def from_query(fields: Mapping[str, str]) -> Filter:
    """Of the fields of a query string, those that are conditions."""
    for name, words in WORDS.items():
        if name in fields and fields[name] not in words:
            raise BadRequest(f"must be one of {', '.join(words)}", name)
    texts = {
        name: fields[name]
        for name in Filter.__struct_fields__
        if name in fields and name not in (*TIMES, *WORDS)
    }
    first, last = (whole_number(fields, name) for name in TIMES)
    return Filter(
        **texts,
        failed_because=cast(FailedBecause | None, fields.get("failed_because")),
        state=cast(State | None, fields.get("state")),
        from_created_at_ms=first,
        to_created_at_ms=last,
    )


def to_query(
    given: Filter, routes: Mapping[str, Route], place: str = "", refusal: int = 400
) -> Query:
    """A refusal has this status, and names the field behind `place`."""
    for name in Filter.__struct_fields__:
        if "\x00" in str(getattr(given, name)):
            raise BadRequest("holds a NUL character", f"{place}{name}", refusal)
    first, last = given.from_created_at_ms, given.to_created_at_ms
    if first is not None and last is not None and first > last:
        raise BadRequest("is after to_created_at_ms", f"{place}from_created_at_ms", refusal)
    facets: tuple[Facet, ...] | None = None
    if given.status is not None:
        facets = facets_of(given.status, routes, given.route)
        if not facets:
            chosen = [route for name, route in routes.items() if given.route in (None, name)]
            words = ", ".join(words_of(chosen))
            raise BadRequest(f"must be one of {words}", f"{place}status", refusal)
    if given.failed_because is not None:
        facets = tuple(_narrowed(facets or (Facet(state="failed"),), given.failed_because))
    if given.state is not None:
        named = (Facet(state=given.state),) if facets is None else facets
        facets = tuple(facet for facet in named if facet.state == given.state)
    return Query(
        route=given.route,
        source=given.source,
        key=given.idempotency_key,
        topic=given.template_id,
        recipient=None if given.recipient is None else as_stored(given.recipient),
        error_class=given.error_class,
        facets=facets,
        # Each request once; addresses and errors are those of its parts.
        top_only=given.recipient is None and given.error_class is None,
        created_from_ms=first,
        created_before_ms=last,
    )


def words_of(routes: Iterable[Route]) -> tuple[str, ...]:
    """The status words of these routes, by which they can be filtered."""
    tables = [route.labels for route in routes] or [ENGINE_LABELS]
    return tuple(sorted({word for table in tables for word in table.words() if word}))


def _narrowed(facets: tuple[Facet, ...], because: FailedBecause) -> Iterable[Facet]:
    for facet in facets:
        if facet.state == "failed" and facet.failed_because in (None, because):
            yield replace(facet, failed_because=because)

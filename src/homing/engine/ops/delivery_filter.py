"""Which deliveries: one value for the library, REST, the console, the command line and MCP.

A new filter is a field of `DeliveryFilter` and its line in `query_for`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from typing import Annotated, Any, TypeAlias, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from homing.domain.delivery import FailedBecause, State
from homing.domain.errors import InvalidRequest
from homing.engine.ops.labels import ENGINE_LABELS
from homing.engine.route import Route
from homing.ports import Facet, Query

MAX_WORD_CHARS = 200
MAX_KEY_CHARS = 512
MAX_ADDRESS_CHARS = 2000


def _text(label: str, about: str, most: int = MAX_WORD_CHARS) -> Meta:
    return Meta(title=label, description=about, max_length=most)


Time: TypeAlias = Annotated[datetime, Meta(tz=True)]


class DeliveryFilter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which deliveries: those that match all conditions that are given.

    Each request is found once. With `recipient` or `error_class`, which are those of its parts, the
    parts of a request are found, too.
    """

    state: (
        Annotated[
            State,
            Meta(title="State", description="The engine's state; routes have words of their own."),
        ]
        | None
    ) = None
    status: Annotated[str, _text("Status", "A status word of its route.")] | None = None
    route: Annotated[str, _text("Route", "The route.")] | None = None
    recipient: (
        Annotated[str, _text("Recipient", "An address of the envelope.", MAX_ADDRESS_CHARS)] | None
    ) = None
    source: Annotated[str, _text("Source", "Which program submitted it.")] | None = None
    key: Annotated[str, _text("Key", "The idempotency key.", MAX_KEY_CHARS)] | None = None
    topic: (
        Annotated[
            str, _text("Template, event or job", "The template, the type of an event, or the job.")
        ]
        | None
    ) = None
    error_class: Annotated[str, _text("Error", "The class of its last failure.")] | None = None
    reason: (
        Annotated[
            FailedBecause, Meta(title="Failed because", description="Why it is a dead letter.")
        ]
        | None
    ) = None
    created_after: (
        Annotated[Time, Meta(title="Created from", description="Created at this time or later.")]
        | None
    ) = None
    created_before: (
        Annotated[Time, Meta(title="Created before", description="Created before this time.")]
        | None
    ) = None


class FilterField(Struct, frozen=True):
    """A condition of a filter: its name, its type, a sentence, a label, and the words it accepts
    if these are fixed."""

    name: str
    kind: Any
    about: str
    label: str
    choices: tuple[str, ...] = ()
    is_time: bool = False


def _fields() -> Iterator[FilterField]:
    for name, hint in get_type_hints(DeliveryFilter, include_extras=True).items():
        kind = get_args(hint)[0]
        [*_, meta] = kind.__metadata__
        choices = get_args(kind.__origin__)
        is_time = kind.__origin__ is datetime
        yield FilterField(name, kind, meta.description, meta.title, choices, is_time)


FILTERS: dict[str, FilterField] = {field.name: field for field in _fields()}


def filter_from(given: Mapping[str, str]) -> DeliveryFilter:
    """The filter of these texts by name, such as those of a query string.

    InvalidRequest names the condition that cannot be read.
    """
    values: dict[str, Any] = {}
    for name, text in given.items():
        field = FILTERS.get(name)
        if field is None:
            raise InvalidRequest(name, f"is not a filter; those are {', '.join(FILTERS)}")
        values[name] = _time(name, text) if field.is_time else text
        _check(field, values[name])
    return DeliveryFilter(**values)


def _check(field: FilterField, value: Any) -> None:
    if field.choices and value not in field.choices:
        raise InvalidRequest(field.name, f"must be one of {', '.join(field.choices)}")
    try:
        msgspec.convert(value, field.kind)
    except msgspec.ValidationError as error:
        raise InvalidRequest(field.name, str(error)) from None
    if isinstance(value, str) and "\x00" in value:
        raise InvalidRequest(field.name, "holds a NUL character")


def _time(name: str, text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise InvalidRequest(name, "must be a time with its zone, such as 2026-11-16T08:00:00Z")
    return time


def query_for(
    chosen: DeliveryFilter, routes: Mapping[str, Route], as_stored: Callable[[str], str]
) -> Query:
    """What the filter means to a store. `as_stored` returns an address as recipients have it.

    InvalidRequest names the condition that is wrong.
    """
    for field in FILTERS.values():
        value = getattr(chosen, field.name)
        if value is not None:
            _check(field, value)
    after, before = chosen.created_after, chosen.created_before
    if after is not None and before is not None and after > before:
        raise InvalidRequest("created_after", "is after created_before")
    return Query(
        route=chosen.route,
        source=chosen.source,
        key=chosen.key,
        topic=chosen.topic,
        recipient=None if chosen.recipient is None else as_stored(chosen.recipient),
        error_class=chosen.error_class,
        facets=_facets(chosen, routes),
        top_only=chosen.recipient is None and chosen.error_class is None,
        created_from_ms=_at_ms(after),
        created_before_ms=_at_ms(before),
    )


def _at_ms(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


def _facets(chosen: DeliveryFilter, routes: Mapping[str, Route]) -> tuple[Facet, ...] | None:
    facets: tuple[Facet, ...] | None = None
    if chosen.status is not None:
        facets = facets_of(chosen.status, routes, chosen.route)
        if not facets:
            words = ", ".join(status_words(routes, chosen.route))
            raise InvalidRequest("status", f"must be one of {words}")
    if chosen.reason is not None:
        facets = tuple(
            replace(facet, failed_because=chosen.reason)
            for facet in facets or (Facet(state="failed"),)
            if facet.state == "failed" and facet.failed_because in (None, chosen.reason)
        )
    if chosen.state is not None:
        named = (Facet(state=chosen.state),) if facets is None else facets
        facets = tuple(facet for facet in named if facet.state == chosen.state)
    return facets


def facets_of(
    word: str, routes: Mapping[str, Route], route_name: str | None = None
) -> tuple[Facet, ...]:
    """The states that each route shows as this status word; empty if no route has the word.

    Deliveries of unknown routes have the engine's words.
    """
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


def status_words(routes: Mapping[str, Route], route_name: str | None = None) -> tuple[str, ...]:
    """The words that a filter accepts, on this route or on all."""
    chosen = [route for name, route in routes.items() if route_name in (None, name)]
    tables = [route.labels for route in chosen] or [ENGINE_LABELS]
    return tuple(sorted({word for table in tables for word in table.words() if word}))


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

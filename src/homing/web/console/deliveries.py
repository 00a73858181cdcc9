"""The list of deliveries: filters in the address, pages, and the choice of many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import Struct
from starlette.responses import Response

from homing.domain.delivery import Delivery
from homing.engine.ops.bounded import count_requests
from homing.engine.ops.delivery_filter import FILTERS, filter_from, status_words
from homing.engine.ops.verbs import BULK_VERBS, VERBS, OperatorVerb
from homing.engine.ops.views import DeliveryView
from homing.ports import Cursor
from homing.ports import Page as StorePage
from homing.runtime.app import Homing
from homing.web.api.exporting import Export
from homing.web.api.listing import Listing, conditions, named_refusals
from homing.web.console import words
from homing.web.console.rendering import Rendering
from homing.web.console.summaries import Summaries
from homing.web.console.visits import Page, Visit
from homing.web.http.reading import cursor_of, encode_cursor

PAGE = 50
FIELDS = frozenset({*FILTERS, "cursor", "did", "count"})
# The order in which states are offered.
STATES = ("failed", "pending", "in_flight", "waiting", "delivered", "suppressed", "dismissed")


class Row(Struct, frozen=True):
    """One delivery in a list."""

    view: DeliveryView
    what: str
    color: str
    # It waits for its route, which is paused.
    held: bool = False


class Chip(Struct, frozen=True):
    """A condition that is in force, and the filter without it."""

    name: str
    value: str
    without: Mapping[str, str]
    at_ms: int | None = None


class Choice(Struct, frozen=True):
    """A state that can be chosen, with how many there are if that is known."""

    name: str
    word: str
    chosen: bool
    count: int | None
    query: Mapping[str, str]


class Deliveries:
    def __init__(self, homing: Homing, listing: Listing, rendering: Rendering) -> None:
        self._homing = homing
        self._rendering = rendering
        self._summaries = Summaries()
        self._export = Export(listing)

    def pages(self) -> Iterable[Page]:
        return (
            Page("GET", "/deliveries", "read", self.list),
            Page("GET", "/export", "read", self.export),
        )

    async def rows(self, visit: Visit, deliveries: Iterable[Delivery]) -> list[Row]:
        """As the visitor may see them."""
        found = list(deliveries)
        what = await self._summaries.of(visit.ops, found)
        is_paused = self._homing.engine.pausing.is_paused
        return [
            Row(
                visit.ops.view(each),
                what[each.id],
                words.color(each.state),
                held=each.state == "pending" and is_paused(each.route),
            )
            for each in found
        ]

    async def export(self, visit: Visit) -> Response:
        """What the filter chooses, as a file."""
        return await self._export.get(visit.call)

    async def list(self, visit: Visit) -> Response:
        fields = visit.query(FIELDS)
        given = conditions(fields)
        routes = self._homing.engine.routes
        cursor = cursor_of(fields)
        with named_refusals():
            page = await visit.ops.list(filter_from(given), cursor, PAGE, bounded=True)
        return self._rendering.page(
            visit,
            "deliveries.html",
            place="deliveries",
            rows=await self.rows(visit, page.items),
            next=encode_cursor(page.next),
            previous=encode_cursor(page.previous),
            looked_to_ms=looked_to_ms(page, cursor),
            filter=given,
            chips=[_chip(name, given) for name in given if name != "state"],
            choices=await self._choices(given),
            filters=FILTERS.values(),
            choices_of={"route": sorted(routes), "status": status_words(routes)},
            bulk_verbs=bulk_verbs(given.get("state")),
            did=fields.get("did"),
            count=fields.get("count", ""),
        )

    async def _choices(self, given: Mapping[str, str]) -> Iterable[Choice]:
        """Stores keep the counts by route and state; with other conditions none are shown."""
        others = {name: value for name, value in given.items() if name != "state"}
        counts: dict[str, int] | None = None
        if others.keys() <= {"route"}:
            counts = {}
            found = await count_requests(self._homing.store)
            for (route, state), number in found.items():
                if others.get("route", route) == route:
                    counts[state] = counts.get(state, 0) + number
        choices = [Choice("", "All", "state" not in given, _total(counts), others)]
        for state in STATES:
            count = None if counts is None else counts.get(state, 0)
            chosen = given.get("state") == state
            if count or chosen or state in ("failed", "pending", "delivered"):
                query = {**others, "state": state}
                choices.append(Choice(state, words.state_word(state), chosen, count, query))
        return choices


def bulk_verbs(state: str | None) -> list[OperatorVerb]:
    """Those that a list of this state offers; one that undoes others needs its state chosen."""
    undoing = {row.undone_by for row in VERBS.values()}
    return [
        VERBS[verb]
        for verb in BULK_VERBS
        if state in VERBS[verb].sources or (state is None and verb not in undoing)
    ]


def looked_to_ms(page: StorePage, cursor: Cursor | None) -> int | None:
    """How far a page has looked that ended before it was full; None: it is whole."""
    edge = page.previous if cursor is not None and cursor.newer else page.next
    return edge.created_at_ms if edge is not None and len(page.items) < PAGE else None


def _total(counts: Mapping[str, int] | None) -> int | None:
    return None if counts is None else sum(counts.values())


def _chip(name: str, given: Mapping[str, str]) -> Chip:
    without = {other: value for other, value in given.items() if other != name}
    field, value = FILTERS[name], given[name]
    at_ms = round(datetime.fromisoformat(value).timestamp() * 1000) if field.is_time else None
    return Chip(field.label, value, without, at_ms)

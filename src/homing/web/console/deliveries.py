"""The list of deliveries: filters in the address, pages, and the choice of many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args

from msgspec import Struct
from starlette.responses import Response

from homing.domain.delivery import Delivery, FailedBecause
from homing.engine.ops.request_counts import count_requests
from homing.engine.ops.verbs import BULK_VERBS, VERBS, OperatorVerb
from homing.engine.ops.views import DeliveryView
from homing.ports import Cursor
from homing.ports import Page as StorePage
from homing.runtime.app import Homing
from homing.web.api.exporting import Export
from homing.web.api.filters import from_query, words_of
from homing.web.api.listing import Listing
from homing.web.api.schemas import Filter
from homing.web.console import words
from homing.web.console.rendering import Rendering
from homing.web.console.summaries import Summaries
from homing.web.console.visits import Page, Visit
from homing.web.http.reading import cursor_of, encode_cursor

PAGE = 50
FILTERS = Filter.__struct_fields__
FIELDS = frozenset({*FILTERS, "cursor", "did", "count"})
# The order in which states are offered.
STATES = ("failed", "pending", "in_flight", "waiting", "delivered", "suppressed", "dismissed")
NAMES = {
    "recipient": "Recipient",
    "status": "Status",
    "source": "Source",
    "template_id": "Template, event or job",
    "idempotency_key": "Key",
    "error_class": "Error",
    "failed_because": "Failed because",
    "state": "State",
    "route": "Route",
    "from_created_at_ms": "Created from",
    "to_created_at_ms": "Created before",
}


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
        self._listing = listing
        self._rendering = rendering
        self._summaries = Summaries(homing.store)
        self._export = Export(homing, listing)

    def pages(self) -> Iterable[Page]:
        return (
            Page("GET", "/deliveries", "read", self.list),
            Page("GET", "/export", "read", self.export),
        )

    async def rows(self, visit: Visit, deliveries: Iterable[Delivery]) -> list[Row]:
        """As the visitor may see them: a subject is content."""
        found = list(deliveries)
        if visit.sees_personal_data:
            what = await self._summaries.of(found)
        else:
            what = {each.id: each.topic or f"{each.route}, {each.id[-6:]}" for each in found}
        is_paused = self._homing.engine.pausing.is_paused
        return [
            Row(
                self._listing.view(visit.call, each),
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
        given = {name: fields[name] for name in FILTERS if name in fields}
        routes = self._homing.engine.routes
        query = await self._listing.query(visit.call, from_query(given))
        cursor = cursor_of(fields)
        page = await self._homing.desk.list(query, cursor, PAGE, bounded=True)
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
            routes=sorted(routes),
            words=words_of(routes.values()),
            reasons=get_args(FailedBecause),
            names=NAMES,
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
    value = given[name]
    at_ms = int(float(value)) if name.endswith("_ms") else None
    return Chip(NAMES[name], value, without, at_ms)

"""Search on every page: an id, a key, an address, or words of an error."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response

from homing.engine.ops.delivery_filter import DeliveryFilter
from homing.engine.ops.reader import MAX_SEARCH_CHARS
from homing.engine.ops.search import SearchResult
from homing.web.api.listing import named_refusals
from homing.web.console.deliveries import PAGE, Deliveries, looked_to_ms
from homing.web.console.delivery import explanation
from homing.web.console.rendering import Rendering
from homing.web.console.visits import Page, Visit
from homing.web.http.reading import cursor_of, encode_cursor

FIELDS = frozenset({"q"})
ADDRESS_FIELDS = frozenset({"a", "cursor"})
# Of how many deliveries to an address it is said why they stand where they stand.
EXPLAINED = 3


class Search:
    def __init__(self, deliveries: Deliveries, rendering: Rendering) -> None:
        self._deliveries = deliveries
        self._rendering = rendering

    def pages(self) -> Iterable[Page]:
        return (
            Page("GET", "/search", "read", self.show),
            Page("GET", "/address", "read", self.address),
        )

    async def show(self, visit: Visit) -> Response:
        """A single delivery, or an address, is shown at once."""
        asked = visit.query(FIELDS).get("q", "").strip()[:MAX_SEARCH_CHARS]
        if "@" in asked and " " not in asked:
            return visit.see("address", a=asked)
        found = SearchResult("nothing")
        if asked:
            found = await visit.ops.search(asked, PAGE)
        if found.matched == "recipient":
            return visit.see("address", a=asked)
        if found.matched in ("id", "key") and len(found.deliveries) == 1:
            return visit.see("deliveries", found.deliveries[0].id)
        return self._rendering.page(
            visit,
            "search.html",
            place=None,
            asked=asked,
            found=found,
            rows=await self._deliveries.rows(visit, found.deliveries),
        )

    async def address(self, visit: Visit) -> Response:
        """Every delivery to one address, newest first, with where the newest ones stand."""
        fields = visit.query(ADDRESS_FIELDS)
        given = fields.get("a", "")
        if not given:
            return visit.see("search")
        cursor = cursor_of(fields)
        chosen = DeliveryFilter(recipient=given)
        with named_refusals():
            page = await visit.ops.list(chosen, cursor, PAGE, bounded=True)
        rows = await self._deliveries.rows(visit, page.items)
        newest = rows[:EXPLAINED] if "cursor" not in fields else []
        former: list[str] = []
        if not rows:
            former = list(await visit.ops.formerly_for(given, EXPLAINED))
        return self._rendering.page(
            visit,
            "address.html",
            place=None,
            address=given,
            rows=rows,
            stories=[(row, await explanation(visit, row.view.delivery_id)) for row in newest],
            former=former,
            next=encode_cursor(page.next),
            previous=encode_cursor(page.previous),
            looked_to_ms=looked_to_ms(page, cursor),
        )

"""All deliveries that a filter chooses, as CSV or JSON, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from homing.engine.ops.caller import CallerOperations
from homing.engine.ops.delivery_filter import FILTERS, DeliveryFilter, filter_from
from homing.engine.ops.exporting import csv_head, csv_rows
from homing.engine.ops.views import DeliveryView
from homing.web.api.listing import Listing, named_refusals
from homing.web.http.answers import encode
from homing.web.http.calls import Call, query_of
from homing.web.http.problems import BadRequest
from homing.web.http.reading import MAX_LIMIT

EXPORT_FIELDS = frozenset({*FILTERS, "format"})
KINDS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


class Export:
    def __init__(self, listing: Listing) -> None:
        self._listing = listing

    async def get(self, call: Call) -> Response:
        fields = query_of(call.scope, EXPORT_FIELDS)
        chosen = fields.pop("format", "csv")
        if chosen not in KINDS:
            raise BadRequest(f"must be one of {', '.join(KINDS)}", "format")
        with named_refusals():
            pages = _pages(self._listing.ops(call), filter_from(fields))
            # Read before the answer begins, so that a store that fails is answered as such.
            first = await anext(pages)
        parts = _as_csv(first, pages) if chosen == "csv" else _as_json(first, pages)
        headers = {"content-disposition": f'attachment; filename="deliveries.{chosen}"'}
        return StreamingResponse(parts, headers=headers, media_type=KINDS[chosen])


async def _pages(
    ops: CallerOperations, chosen: DeliveryFilter
) -> AsyncIterator[list[DeliveryView]]:
    cursor = None
    while True:
        page = await ops.list(chosen, cursor, MAX_LIMIT)
        yield [ops.view(delivery) for delivery in page.items]
        cursor = page.next
        if cursor is None:
            return


async def _as_csv(
    first: list[DeliveryView], rest: AsyncIterator[list[DeliveryView]]
) -> AsyncIterator[bytes]:
    yield (csv_head() + csv_rows(first)).encode()
    async for page in rest:
        yield csv_rows(page).encode()


async def _as_json(
    first: list[DeliveryView], rest: AsyncIterator[list[DeliveryView]]
) -> AsyncIterator[bytes]:
    yield b'{"items":[' + b",".join(map(encode, first))
    async for page in rest:
        if page:  # what was left for it may be gone since
            yield b"," + b",".join(map(encode, page))
    yield b"]}"

"""For developers: what would have been sent, where the provider keeps all mail on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from starlette.responses import Response

from homing.domain.message import Email
from homing.engine.route import Route
from homing.ports import Facet, Query, Rehearsing
from homing.runtime.app import Homing
from homing.web.console.deliveries import Deliveries, Row
from homing.web.console.local_mail import local_routes
from homing.web.console.payloads import MailParts, email_of, mail_parts
from homing.web.console.rendering import Rendering
from homing.web.console.visits import Page, Visit
from homing.web.http.problems import BadRequest
from homing.web.http.reading import cursor_of, encode_cursor

PAGE = 20
FIELDS = frozenset({"cursor", "did"})
# It would pause the route until a person resumes it.
NOT_SAMPLED = "auth@"


class Sent(Struct, frozen=True):
    """A mail that went no further than this machine."""

    row: Row
    mail: MailParts | None


class Outbox:
    def __init__(self, homing: Homing, deliveries: Deliveries, rendering: Rendering) -> None:
        self._homing = homing
        self._deliveries = deliveries
        self._rendering = rendering

    def pages(self) -> Iterable[Page]:
        return (
            Page("GET", "/outbox", "read", self.show),
            Page("POST", "/outbox/samples", "send", self.samples),
        )

    async def show(self, visit: Visit) -> Response:
        fields = visit.query(FIELDS)
        routes = local_routes(self._homing) if visit.sees_personal_data else []
        facets = tuple(Facet(state="delivered", route=route.name) for route in routes)
        query = Query(facets=facets)
        page = await visit.ops.page(query, cursor_of(fields), PAGE) if routes else None
        items = () if page is None else page.items
        rows = await self._deliveries.rows(visit, items)
        return self._rendering.page(
            visit,
            "outbox.html",
            place="outbox",
            routes=routes,
            sent=[Sent(row, await _mail(visit, row.view.delivery_id)) for row in rows],
            next=None if page is None else encode_cursor(page.next),
            previous=None if page is None else encode_cursor(page.previous),
            addresses=_addresses(routes),
            sampled="did" in fields,
        )

    async def samples(self, visit: Visit) -> Response:
        """One mail to each address that has a behaviour of its own."""
        await visit.form()
        addresses = _addresses(local_routes(self._homing))
        if not addresses:
            raise BadRequest("this provider has no test addresses", None, 409)
        for address, (route, meaning) in addresses.items():
            if address.startswith(NOT_SAMPLED):
                continue
            email = Email(
                to=address.replace("-N@", "-1@"),
                subject=f"Sample for {address}",
                text=f"What is sent to {address} {meaning}.\n\nhttps://example.org/a-link",
                html=f"<h1>Sample</h1><p>What is sent to <b>{address}</b> {meaning}.</p>"
                '<p><a href="https://example.org/a-link">A link</a></p>',
            )
            ticket = await self._homing.submit(email, route=route, source="console")
            await visit.ops.annotate(
                ticket.delivery_id, actor=visit.person, note="sent as a sample"
            )
        return visit.see("outbox", did="samples")


async def _mail(visit: Visit, delivery_id: str) -> MailParts | None:
    content = await visit.ops.content(delivery_id)
    email = email_of(content)
    if email is None or content is None:
        return None
    return mail_parts(email, content, whole=False)


def _addresses(routes: Iterable[Route]) -> Mapping[str, tuple[str, str]]:
    """By address, the route that has it, and what happens to its mail."""
    found: dict[str, tuple[str, str]] = {}
    for route in routes:
        provider: object = route.provider
        if isinstance(provider, Rehearsing):
            for address, meaning in provider.test_addresses.items():
                found.setdefault(address, (route.name, meaning))
    return found

"""The table of the console: every page behind its right, and refusals as pages."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import Response

from homing.domain.errors import HomingError, StoreError
from homing.runtime.app import Homing
from homing.web.access.auth import AccessCheck
from homing.web.api.bulk import Bulk
from homing.web.api.inspection import Inspection
from homing.web.api.intake import Intake
from homing.web.api.listing import Listing
from homing.web.api.live import EventStream, Live
from homing.web.api.operations import PUBLIC
from homing.web.api.resources import Resource
from homing.web.api.verbs import Verbs
from homing.web.console.bulk import BulkPages
from homing.web.console.deliveries import Deliveries
from homing.web.console.delivery import DeliveryPage
from homing.web.console.failures import Failures
from homing.web.console.home import Home
from homing.web.console.outbox import Outbox
from homing.web.console.rendering import STATIC, Rendering
from homing.web.console.routes import Routes
from homing.web.console.search import Search
from homing.web.console.signing_in import PageAccessCheck, SigningIn
from homing.web.console.system import System
from homing.web.console.visits import Page, Visit
from homing.web.http import calls
from homing.web.http.answers import Answer
from homing.web.http.bodies import Bodies
from homing.web.http.calls import Call, query_of
from homing.web.http.problems import BadRequest, answer_for

LIVE_FIELDS = frozenset({"delivery"})


class Console:
    """Makes the pages over one Homing, for a table of resources."""

    def __init__(
        self,
        homing: Homing,
        live: Live,
        bodies: Bodies,
        access_check: AccessCheck,
        intake: Intake,
        inspection: Inspection,
    ) -> None:
        self._homing = homing
        self._live = live
        self._bodies = bodies
        self._access_check = access_check
        self._rendering = rendering = Rendering(homing, access_check)
        listing = Listing(homing)
        verbs = Verbs(homing, listing, intake)
        bulk = Bulk(homing, listing, intake)
        deliveries = Deliveries(homing, listing, rendering)
        sections = (
            Home(homing, listing, rendering),
            deliveries,
            DeliveryPage(homing, listing, verbs, deliveries, rendering),
            BulkPages(listing, verbs, bulk, deliveries, rendering),
            Failures(homing, deliveries, rendering),
            Search(deliveries, rendering),
            Routes(homing, listing, verbs, inspection, rendering),
            Outbox(homing, deliveries, rendering),
            System(homing, inspection, rendering),
            SigningIn(access_check, rendering),
        )
        self._pages = [page for section in sections for page in section.pages()]

    def resources(self, prefix: str) -> dict[str, Resource]:
        """By path, under a prefix such as `/console`, or none."""
        table: dict[str, Resource] = {}
        for page in self._pages:
            access_check = PageAccessCheck(
                self._access_check, self._rendering, page.path, self._visit_of(page)
            )
            resource = table.setdefault(
                prefix + page.path, Resource(access_check, takes_forms=True)
            )
            resource.serve(page.method, page.right, self._endpoint(page))
        if prefix:
            # Without its slash, relative links would lead out of the console.
            bare = table[prefix] = Resource(self._access_check)
            bare.serve("GET", PUBLIC, _to_slash)
        stream = Resource(self._access_check)
        stream.serve("GET", "read", self._stream)
        table[f"{prefix}/live"] = stream
        for path in STATIC.iterdir():
            static = Resource(self._access_check)
            static.serve("GET", PUBLIC, self._static(path.name))
            table[f"{prefix}/static/{path.name}"] = static
        return table

    def _visit_of(self, page: Page) -> Callable[[Call], Visit]:
        return lambda call: Visit(call, page.path, self._bodies, self._homing)

    def _endpoint(self, page: Page) -> calls.Endpoint:
        visit_of = self._visit_of(page)

        async def act(call: Call) -> Response:
            visit = visit_of(call)
            try:
                return await page.handle(visit)
            except (HomingError, BadRequest) as error:
                if isinstance(error, StoreError):
                    self._homing.engine.health.met(error)
                return self._refused(visit, error)

        return act

    def _refused(self, visit: Visit, error: Exception) -> Response:
        """In the words and with the status of REST."""
        return self._rendering.refusal(visit, answer_for(error))

    async def _stream(self, call: Call) -> Response:
        """Ticks for an open page."""
        fields = query_of(call.scope, LIVE_FIELDS)
        ticks = self._live.ticks
        return EventStream(ticks, ticks.viewer(fields.get("delivery")), call)

    def _static(self, name: str) -> calls.Endpoint:
        async def act(call: Call) -> Response:
            del call
            return self._rendering.static(name)

        return act


async def _to_slash(call: Call) -> Response:
    last = call.scope["path"].rpartition("/")[2]
    return Answer(b"", 308, b"text/plain", ((b"location", f"{last}/".encode()),))

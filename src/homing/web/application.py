"""The ASGI application: the table of operations over one Homing, guarded and answered alike."""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from homing.domain.errors import NotFound, SettingsError, StoreError
from homing.engine.ops.delivery_filter import status_words
from homing.engine.ops.verbs import BULK_VERBS, VERBS
from homing.plugins.programs import Program
from homing.plugins.value import Service, Web
from homing.runtime.app import Homing
from homing.runtime.mail_route import MAIL_ROUTE
from homing.settings.tree import Settings
from homing.web.access.auth import AccessCheck, check_access
from homing.web.api.bulk import Bulk
from homing.web.api.exporting import Export
from homing.web.api.health import Health
from homing.web.api.inspection import Inspection
from homing.web.api.intake import Intake
from homing.web.api.listing import Listing
from homing.web.api.live import Live
from homing.web.api.openapi import Described, document
from homing.web.api.operations import OPERATIONS
from homing.web.api.own_table import access_check_for, endpoint_for
from homing.web.api.people import People
from homing.web.api.records import Records
from homing.web.api.resources import Resource, resources
from homing.web.api.verbs import Verbs
from homing.web.console.table import Console
from homing.web.http.answers import Answer, add_security
from homing.web.http.bodies import SHORT_BYTES, Bodies
from homing.web.http.calls import Call, Endpoint
from homing.web.http.problems import CLOSE, answer_for

# Those that take e-mails for the route `mail`.
INTAKE = frozenset({"submit", "submit_batch"})


def application(
    homing: Homing,
    settings: Settings,
    *,
    metrics: Endpoint | None = None,
    web: Web | None = None,
    service: Service[Any] | None = None,
    console: str | None = None,
    program: Program | None = None,
) -> Application:
    """The ASGI application over one Homing, which starts and stops with it.

    `web` is the table of a plugin, whose handlers are given its `service`. `console` is the
    prefix of the operator console, such as `/console`. Without one it is served at `/`, unless
    that belongs to a plugin. `program` is what its settings and checks are shown of.
    """
    live = Live()
    bodies = Bodies()
    access_check = AccessCheck(homing, settings.server, steady_s=time.monotonic)
    intake = Intake(homing, bodies, settings.limits)
    inspection = Inspection(homing, Listing(homing), intake, program)
    endpoints = _endpoints(homing, live, access_check, intake, inspection)
    if metrics is not None:
        endpoints["metrics"] = metrics
    table = (
        {} if web is not None and not web.standard else _standard(homing, endpoints, access_check)
    )
    if web is not None and service is not None:
        _add_own(table, web, service, bodies, access_check)
    if web is None:
        console = console or ""
    if console is not None:
        pages = Console(homing, live, bodies, access_check, intake, inspection).resources(console)
        if taken := sorted(table.keys() & pages.keys()):
            raise SettingsError("console", f"{taken[0]} is served already; choose another prefix")
        table |= pages
    guarded = console is not None or web is None or web.standard or web.access != "trusted"
    if settings.server.auth is not None and not guarded:
        raise SettingsError("server.auth", "has no effect: these endpoints ask for no token")

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        del app
        await homing.start()
        live.begin()
        try:
            homing.engine.add_observer(live)
            if guarded:
                await check_access(settings.server, homing)
            yield
        finally:
            live.end()
            await homing.stop(settings.shutdown_grace.value)

    def met(error: StoreError) -> None:
        homing.engine.health.met(error)

    return Application(table, live, access_check, lifespan, met)


def _standard(
    homing: Homing, endpoints: dict[str, Endpoint], access_check: AccessCheck
) -> dict[str, Resource]:
    """The table of `/api/v1`; e-mails are taken where the mail route is worked on."""
    left_out = frozenset() if homing.works_on(MAIL_ROUTE) else INTAKE
    operations = tuple(each for each in OPERATIONS if each.name not in left_out)
    chosen = {name: endpoint for name, endpoint in endpoints.items() if name not in left_out}
    chosen["openapi"] = _openapi(homing, left_out, access_check)
    return resources(operations, chosen, access_check)


def _add_own(
    table: dict[str, Resource],
    web: Web,
    service: Service[Any],
    bodies: Bodies,
    access_check: AccessCheck,
) -> None:
    own_check = access_check_for(web.access, access_check)
    for each in web.endpoints:
        resource = table.setdefault(each.path, Resource(own_check, takes_forms=True))
        if each.method in resource.served:
            raise ValueError(f"{each.method} {each.path} is served already")
        resource.serve(each.method, each.right, endpoint_for(each, service, bodies))


class Application(Starlette):
    """Starlette with one entry point: every answer, also to an error, is made here."""

    def __init__(
        self,
        found: Mapping[str, Resource],
        live: Live,
        access_check: AccessCheck,
        lifespan: Any,
        met: Callable[[StoreError], None],
    ) -> None:
        routes = [Route(path, resource) for path, resource in found.items()]
        super().__init__(routes=routes, lifespan=lifespan)
        self.router.redirect_slashes = False
        self.live = live
        self.access_check = access_check
        self._met = met
        # The paths without parameters are found at once; the others by Starlette's patterns.
        self._plain = {path: resource for path, resource in found.items() if "{" not in path}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        scope["app"] = self
        answering: ASGIApp = self.router
        try:
            plain = self._plain_resource(scope)
            if plain is not None:
                answering = await plain.response(scope, receive)
        except ClientDisconnect:
            return  # the caller has disconnected
        except Exception as error:
            answering = self._refused(scope, error)
        if not (isinstance(answering, Answer) and answering.is_taken(scope)):
            await self._send(answering, scope, receive, send)

    async def _send(self, answering: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """In ASGI's own pieces, with the headers that every answer has."""
        started = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                add_security(message["headers"])
            await send(message)

        try:
            await answering(scope, receive, send_guarded)
        except ClientDisconnect:
            return  # the caller has disconnected
        except Exception as error:
            if started:
                self._note(error)
                raise
            await self._refused(scope, error)(scope, receive, send_guarded)

    def _plain_resource(self, scope: Scope) -> Resource | None:
        if "\x00" in scope["path"]:  # no id and no route has one, and PostgreSQL takes none
            raise NotFound("no such delivery")
        return None if scope.get("root_path") else self._plain.get(scope["path"])

    def _refused(self, scope: Scope, error: Exception) -> Answer:
        self._note(error)
        return _refused(scope, error)

    def _note(self, error: Exception) -> None:
        if isinstance(error, StoreError):
            self._met(error)


def _endpoints(
    homing: Homing, live: Live, access_check: AccessCheck, intake: Intake, inspection: Inspection
) -> dict[str, Endpoint]:
    listing = Listing(homing)
    verbs = Verbs(homing, listing, intake)
    bulk = Bulk(homing, listing, intake)
    health = Health(homing, listing, intake)
    people = People(homing, access_check, intake)
    records = Records(homing)
    return {
        "submit": intake.post,
        "submit_batch": intake.post_batch,
        "list": listing.list,
        "show": listing.show,
        "attempts": listing.attempts,
        "audit": listing.audit,
        "why": listing.why,
        "content": records.content,
        "audit_log": records.audit_log,
        **{verb: verbs.endpoint(verb) for verb in VERBS},
        **{f"{verb}_many": bulk.start(verb) for verb in BULK_VERBS},
        **{f"show_{verb}_many": bulk.show(verb) for verb in BULK_VERBS},
        **{f"stop_{verb}_many": bulk.stop(verb) for verb in BULK_VERBS},
        "pause": verbs.pause,
        "resume": verbs.resume,
        "check_provider": inspection.post_check,
        "send_test": inspection.post_test,
        "stats": listing.stats,
        "workers": inspection.get_workers,
        "counters": listing.counters,
        "search": listing.search,
        "export": Export(listing).get,
        "failures": listing.failures,
        "events": functools.partial(live.stream, listing=listing),
        "me": people.me,
        "sign_in": people.sign_in,
        "sign_out": people.sign_out,
        "users": people.users,
        "tokens": people.tokens,
        "settings": inspection.get_settings,
        "doctor": inspection.get_report,
        "examine": inspection.post_report,
        "metrics": health.metrics,
        "healthz": health.healthz,
        "readyz": health.readyz,
    }


def _openapi(homing: Homing, left_out: frozenset[str], access_check: AccessCheck) -> Endpoint:
    """The document of this service as it is now: who may call changes with the first token."""

    async def answer(call: Call) -> Response:
        described = Described(
            left_out=left_out,
            words=status_words(homing.engine.routes),
            needs_token=not await access_check.is_open(),
            base=call.scope.get("root_path", ""),
        )
        return Answer(document(described))

    return answer


def _refused(scope: Scope, error: Exception) -> Answer:
    answer = answer_for(error)
    headers = dict(scope["headers"])
    length = headers.get(b"content-length", b"0")
    # The rest of a large body is not worth reading for the sake of the next request.
    large = length.isdigit() and int(length) > SHORT_BYTES
    if (large or b"transfer-encoding" in headers) and CLOSE not in answer.extra:
        answer.extra.append(CLOSE)
    return answer

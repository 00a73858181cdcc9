"""The ASGI application: the table of operations over one Homing, guarded and answered alike."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from homing.app import Homing
from homing.engine.tokens import Right
from homing.settings.tree import Settings
from homing.web.answers import Answer, add_security
from homing.web.auth import Gate, check_bind, is_loopback
from homing.web.bodies import SHORT_BYTES, Bodies
from homing.web.calls import Call, Endpoint
from homing.web.health import Health
from homing.web.intake import Intake
from homing.web.listing import Listing
from homing.web.live import Live
from homing.web.openapi import document
from homing.web.operations import OPERATIONS, PUBLIC, Operation
from homing.web.problems import CLOSE, answer_for, problem
from homing.web.status import StatusPage
from homing.web.verbs import VERBS, Verbs


def application(
    homing: Homing, settings: Settings, *, metrics: Endpoint | None = None
) -> Application:
    """The app over one Homing, which starts and stops with it. Mount it where you like."""
    live = Live()
    gate = Gate(
        homing.tokens,
        open_to_all=is_loopback(settings.server.host),
        steady_s=time.monotonic,
    )
    endpoints = _endpoints(homing, settings, live)
    if metrics is not None:
        endpoints["metrics"] = metrics

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        del app
        await homing.start()
        live.begin()
        try:
            homing.engine.add_observer(live)
            await check_bind(settings.server.host, homing.tokens)
            yield
        finally:
            live.end()
            await homing.stop(settings.stop_grace.value)

    return Application(resources(OPERATIONS, endpoints, gate), live, lifespan)


class Application(Starlette):
    """Starlette with one front door: every answer, also to what goes wrong, is one of ours."""

    def __init__(self, found: Mapping[str, Resource], live: Live, lifespan: Any) -> None:
        routes = [Route(path, resource) for path, resource in found.items()]
        super().__init__(routes=routes, lifespan=lifespan)
        self.router.redirect_slashes = False
        self.live = live
        # The paths without parameters are found at once; the others by Starlette's patterns.
        self._plain = {path: resource for path, resource in found.items() if "{" not in path}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        scope["app"] = self
        started = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                add_security(message["headers"])
            await send(message)

        try:
            resource = None if scope.get("root_path") else self._plain.get(scope["path"])
            await (resource or self.router)(scope, receive, send_guarded)
        except ClientDisconnect:
            return  # nobody is left to be answered
        except Exception as error:
            if started:
                raise
            await _refused(scope, error)(scope, receive, send_guarded)


class Resource:
    """One path: its endpoints by method, each behind the right that it needs."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.served: dict[str, Served] = {}

    def serve(self, operation: Operation, endpoint: Endpoint) -> None:
        served = Served(operation.right, endpoint)
        for method in ("GET", "HEAD") if operation.method == "GET" else (operation.method,):
            self.served[method] = served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        served = self.served.get(scope["method"])
        if served is None:
            response: Response = problem(405, headers=((b"allow", self._allowed()),))
        else:
            call = Call(scope, receive)
            try:
                refusal = None
                if served.right != PUBLIC:
                    refusal = await self._gate.refusal(call, served.right)
                response = await served.endpoint(call) if refusal is None else refusal
            finally:
                if call.at_end is not None:
                    call.at_end()
        await response(scope, receive, send)

    def _allowed(self) -> bytes:
        return ", ".join(sorted(self.served)).encode()


class Served(Struct, frozen=True):
    right: Right | Literal["public"]
    endpoint: Endpoint


def resources(
    operations: tuple[Operation, ...], endpoints: Mapping[str, Endpoint], gate: Gate
) -> dict[str, Resource]:
    """By path; an operation without an endpoint, or the other way round, is a mistake of ours."""
    if endpoints.keys() != {operation.name for operation in operations}:
        raise KeyError("operations and endpoints do not match")
    found: dict[str, Resource] = {}
    for operation in operations:
        found.setdefault(operation.path, Resource(gate)).serve(operation, endpoints[operation.name])
    return found


def _endpoints(homing: Homing, settings: Settings, live: Live) -> dict[str, Endpoint]:
    listing = Listing(homing)
    intake = Intake(homing, Bodies(), settings.limits)
    verbs = Verbs(homing, listing, intake)
    health = Health(homing, listing, intake)
    status = StatusPage(listing)
    return {
        "submit": intake.post,
        "submit_batch": intake.post_batch,
        "list": listing.list,
        "show": listing.show,
        "attempts": listing.attempts,
        "audit": listing.audit,
        "why": listing.why,
        **{verb: verbs.endpoint(verb) for verb in VERBS},
        "replay_many": verbs.replay_many,
        "show_replay": verbs.show_replay,
        "park": verbs.park,
        "unpark": verbs.unpark,
        "stats": listing.stats,
        "errors": listing.errors,
        "events": live.stream,
        "metrics": health.metrics,
        "status_page": status.page,
        "healthz": health.healthz,
        "readyz": health.readyz,
        "openapi": _openapi,
        "status_style": status.style,
    }


async def _openapi(call: Call) -> Response:
    del call
    return Answer(document())


def _refused(scope: Scope, error: Exception) -> Answer:
    answer = answer_for(error)
    headers = dict(scope["headers"])
    length = headers.get(b"content-length", b"0")
    # The rest of a large body is not worth reading for the sake of the next request.
    large = length.isdigit() and int(length) > SHORT_BYTES
    if (large or b"transfer-encoding" in headers) and CLOSE not in answer.extra:
        answer.extra.append(CLOSE)
    return answer

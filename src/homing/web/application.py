"""The ASGI application: the table of routes, what each needs, and the headers on every answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from homing.app import Homing
from homing.domain.errors import HomingError
from homing.engine.tokens import Right
from homing.settings.tree import Settings
from homing.web.auth import Endpoint, Gate, check_bind, is_loopback
from homing.web.health import Health
from homing.web.intake import Intake
from homing.web.live import Live
from homing.web.operator import Operator
from homing.web.problems import BadRequest, crashed, problem, refused
from homing.web.status import StatusPage

API = "/api/v1"

SECURITY_HEADERS = (
    ("Content-Security-Policy", "default-src 'none'; style-src 'self'; frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)


def application(
    homing: Homing, settings: Settings, *, metrics: Endpoint | None = None
) -> Starlette:
    """The app over one Homing, which starts and stops with it. Mount it where you like."""
    gate = Gate(homing.tokens, open_to_all=is_loopback(settings.server.host))
    live = Live()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        del app
        async with homing:
            homing.engine.add_observer(live)
            await check_bind(settings.server.host, homing.tokens)
            yield

    app = Starlette(
        routes=list(_routes(homing, settings, gate, live, metrics)),
        lifespan=lifespan,
        exception_handlers=_handlers(),
    )
    app.add_middleware(_Headers)
    return app


def _routes(
    homing: Homing, settings: Settings, gate: Gate, live: Live, metrics: Endpoint | None
) -> list[BaseRoute]:
    intake, operator = Intake(homing, settings.limits), Operator(homing)
    health, status = Health(homing), StatusPage(homing, operator)
    table: list[tuple[str, str, Right, Endpoint]] = [
        ("POST", f"{API}/deliveries", "send", intake.post),
        ("POST", f"{API}/deliveries/batch", "send", intake.post_batch),
        ("GET", f"{API}/deliveries", "read", operator.list),
        ("GET", f"{API}/deliveries/{{delivery_id}}", "read", operator.show),
        ("GET", f"{API}/deliveries/{{delivery_id}}/attempts", "read", operator.attempts),
        ("GET", f"{API}/deliveries/{{delivery_id}}/audit", "read", operator.audit),
        ("GET", f"{API}/deliveries/{{delivery_id}}/why", "read", operator.why),
        ("POST", f"{API}/deliveries/{{delivery_id}}/{{verb}}", "operate", operator.act),
        ("POST", f"{API}/replays", "operate", operator.replay_many),
        ("GET", f"{API}/replays/{{replay_id}}", "read", operator.show_replay),
        ("GET", f"{API}/stats", "read", operator.stats),
        ("GET", f"{API}/errors", "read", operator.errors),
        ("GET", f"{API}/events", "read", live.stream),
        ("GET", "/", "read", status.page),
    ]
    if metrics is not None:
        table.append(("GET", "/metrics", "read", metrics))
    routes: list[BaseRoute] = [
        Route(path, gate(right, endpoint), methods=[method])
        for method, path, right, endpoint in table
    ]
    # Asked by machines that hold no token, and telling nothing that needs one.
    routes.append(Route("/healthz", health.healthz))
    routes.append(Route("/readyz", health.readyz))
    routes.append(Route("/static/status.css", status.style))
    return routes


def _handlers() -> dict[Any, Callable[..., Any]]:
    return {
        HomingError: refused,
        BadRequest: refused,
        HTTPException: _http,
        Exception: crashed,
    }


async def _http(request: Request, error: Exception) -> Response:
    del request
    if not isinstance(error, HTTPException):
        raise error
    response = problem(error.status_code, error.detail)
    response.headers.update(error.headers or {})
    return response


class _Headers:
    """Plain ASGI: a security header costs nothing per request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS:
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)

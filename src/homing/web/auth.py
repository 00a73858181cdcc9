"""Who may call: open on loopback, tokens with roles everywhere else."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from homing.domain.errors import SettingsError
from homing.engine.tokens import RIGHTS, Right, Tokens
from homing.web.problems import problem

Endpoint = Callable[[Request], Awaitable[Response]]


def is_loopback(host: str) -> bool:
    if host in ("localhost", "localhost.localdomain"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


async def check_bind(host: str, tokens: Tokens) -> None:
    """Refuse to listen to the world without a single token."""
    if not is_loopback(host) and not await tokens.all():
        raise SettingsError(
            "server.host",
            f"{host} is not loopback and there are no API tokens; make one first:"
            " homing token make NAME --role admin",
        )


class Gate:
    """Guards each endpoint with the right that it needs."""

    def __init__(self, tokens: Tokens, *, open_to_all: bool) -> None:
        self._tokens = tokens
        self._open = open_to_all

    def __call__(self, right: Right, endpoint: Endpoint) -> Endpoint:
        async def guarded(request: Request) -> Response:
            refusal = await self._refusal(request, right)
            return refusal if refusal is not None else await endpoint(request)

        return guarded

    async def _refusal(self, request: Request, right: Right) -> Response | None:
        if self._open:
            return _foreign(request)
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        token = None
        if scheme.lower() == "bearer" and secret:
            token = await self._tokens.check(secret.strip())
        if token is None:
            response = problem(401, "Unauthorized", "a valid API token is required")
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        if right not in RIGHTS[token.role]:
            return problem(403, "Forbidden", f"role {token.role} may not {right}")
        request.state.actor = token.name
        return None


def _foreign(request: Request) -> Response | None:
    """Open means open to this machine's programs, not to web pages that its browser shows."""
    host = request.headers.get("host", "")
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    if not is_loopback(name):
        return problem(403, "Forbidden", "unknown Host", field="Host")
    origin = request.headers.get("origin")
    if origin is not None and origin != f"{request.url.scheme}://{host}":
        return problem(403, "Forbidden", "requests from other origins are refused", field="Origin")
    return None

"""The fake as an ASGI application: routes, access tokens, latency, cuts, and the lists of calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from homing_systems.mock_graph.mail import GraphError, Mail
from homing_systems.mock_graph.messages import Messages, error_of
from homing_systems.mock_graph.script import Answer, recipient_scripts, send_script, token_script
from homing_systems.mock_graph.state import Call, State
from homing_systems.mock_graph.token_endpoint import TokenEndpoint

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

SEND = "Mail.Send"
READ_WRITE = "Mail.ReadWrite"
# The status of a call that got no answer.
CUT = 0


class Behaviour(Struct, frozen=True, kw_only=True):
    """With `revoke_used` a refresh token works once, which is stricter than the real service."""

    script: str = ""
    token_script: str = ""
    recipients: Sequence[str] = ()
    scope: str = SEND
    latency_s: float = 0.0
    token_life_s: int = 3600
    revoke_used: bool = False


class MockGraph:
    """`cut` ends the connection of a client, by its address: only the server can do that."""

    def __init__(self, state: State, behaviour: Behaviour) -> None:
        """Raises InvalidRequest where a script has an unknown word."""
        self._state = state
        self._scopes = frozenset(
            each.rpartition("/")[2].lower() for each in behaviour.scope.split()
        )
        self._latency_s = behaviour.latency_s
        self._token_script = token_script(behaviour.token_script)
        self._tokens = TokenEndpoint(
            state,
            scope=behaviour.scope,
            life_s=behaviour.token_life_s,
            revoke_used=behaviour.revoke_used,
        )
        self._messages = Messages(
            state, send_script(behaviour.script), recipient_scripts(behaviour.recipients)
        )
        self.cut: Callable[[tuple[str, int]], None] = lambda _: None
        app = Starlette(routes=self._routes(), exception_handlers={GraphError: _graph_error})
        self.app: ASGIApp = self._noting(app)

    def _routes(self) -> list[Route]:
        graph: list[tuple[str, str, Handler]] = [
            ("POST", "/sendMail", self._send_mail),
            ("GET", "/messages", self._find),
            ("POST", "/messages", self._create),
            ("GET", "/messages/{id}", self._get),
            ("DELETE", "/messages/{id}", self._delete),
            ("POST", "/messages/{id}/send", self._send_draft),
        ]
        routes = [
            Route("/_ledger", self._ledger),
            Route("/_calls", self._calls),
            Route("/{tenant}/oauth2/v2.0/token", self._token, methods=["POST"]),
            Route("/{tenant}/v2.0/.well-known/openid-configuration", self._discover),
        ]
        for version in ("/v1.0", ""):
            for owner in ("/me", "/users/{user}"):
                routes += [
                    Route(f"{version}{owner}{path}", handler, methods=[method])
                    for method, path, handler in graph
                ]
        return routes

    async def _ledger(self, request: Request) -> Response:
        del request
        return _json(200, self._state.ledger())

    async def _calls(self, request: Request) -> Response:
        del request
        return _json(200, self._state.calls())

    async def _discover(self, request: Request) -> Response:
        base = f"{request.base_url}{request.path_params['tenant']}/oauth2/v2.0"
        return _json(200, {"issuer": base, "token_endpoint": f"{base}/token"})

    async def _token(self, request: Request) -> Response:
        scripted = self._token_script.next()
        await asyncio.sleep(self._latency_s)
        if scripted.cuts:
            return _Cut(self)
        status, fields = self._tokens.answer(await request.body(), scripted)
        return _json(status, fields, scripted.retry_after)

    async def _send_mail(self, request: Request) -> Response:
        self._authorize(request, SEND)
        await asyncio.sleep(self._latency_s)
        kind, body = request.headers.get("Content-Type", ""), await request.body()
        answer, mail = self._messages.send_mail(kind, body, _now())
        return self._sent(request, answer, mail)

    async def _send_draft(self, request: Request) -> Response:
        self._authorize(request, SEND)
        await asyncio.sleep(self._latency_s)
        answer, mail = self._messages.send_draft(request.path_params["id"], _now())
        return self._sent(request, answer, mail)

    async def _create(self, request: Request) -> Response:
        self._authorize(request, READ_WRITE)
        await asyncio.sleep(self._latency_s)
        kind, body = request.headers.get("Content-Type", ""), await request.body()
        return _json(201, self._messages.create(kind, body, _now()))

    async def _find(self, request: Request) -> Response:
        self._authorize(request, READ_WRITE)
        return _json(200, {"value": self._messages.find(request.query_params.get("$filter", ""))})

    async def _get(self, request: Request) -> Response:
        self._authorize(request, READ_WRITE)
        return _json(200, self._messages.get(request.path_params["id"]))

    async def _delete(self, request: Request) -> Response:
        self._authorize(request, READ_WRITE)
        self._messages.delete(request.path_params["id"])
        return Response(status_code=204)

    def _authorize(self, request: Request, permission: str) -> None:
        """Before the script: a call that is not authorized spends none of it."""
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if kind != "Bearer" or not self._tokens.is_good(token):
            raise GraphError(401, "InvalidAuthenticationToken", "the access token is not valid")
        if permission.lower() not in self._scopes:
            raise GraphError(403, "ErrorAccessDenied", f"{permission} is not granted")

    def _sent(self, request: Request, answer: Answer, mail: Mail) -> Response:
        request.scope["mock_graph_recipients"] = mail.recipients
        if answer.cuts:
            return _Cut(self)
        headers = {"request-id": f"mock-{time.time_ns():x}"}
        if answer.retry_after is not None:
            headers["Retry-After"] = answer.retry_after
        if 200 <= answer.status < 400:
            return Response(status_code=answer.status, headers=headers)
        fields = error_of(answer.status).fields()
        return Response(msgspec.json.encode(fields), answer.status, headers, "application/json")

    def _noting(self, app: ASGIApp) -> ASGIApp:
        """Every call with its answer goes to the list of calls, before the answer is given."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or scope["path"].startswith("/_"):
                await app(scope, receive, send)
                return

            async def note(message: Message) -> None:
                if message["type"] == "http.response.start":
                    retry_after = dict(message["headers"]).get(b"retry-after")
                    self.note(scope, message["status"], retry_after)
                await send(message)

            await app(scope, receive, note)

        return answer

    def note(self, scope: Scope, status: int, retry_after: bytes | None = None) -> None:
        call = Call(
            time=_now(),
            method=scope["method"],
            path=scope["path"],
            status=status,
            retry_after=None if retry_after is None else retry_after.decode(),
            recipients=scope.get("mock_graph_recipients", ()),
            query=scope["query_string"].decode(),
        )
        self._state.called(call)


class _Cut(Response):
    """No answer: the connection ends."""

    def __init__(self, fake: MockGraph) -> None:
        super().__init__()
        self._fake = fake

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del send
        self._fake.note(scope, CUT)
        self._fake.cut(scope["client"])
        while (await receive())["type"] != "http.disconnect":
            pass


async def _graph_error(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, GraphError)  # noqa: S101 - the handler is registered for it alone
    return _json(error.status, error.fields())


def _json(status: int, value: object, retry_after: str | None = None) -> Response:
    headers = None if retry_after is None else {"Retry-After": retry_after}
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def _now() -> str:
    """The fake is a service of its own: its clock is the wall clock."""
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")

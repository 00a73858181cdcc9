"""The web table of an assembly: its endpoints as endpoints of the application."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from homing.assembly import Access, Endpoint, HttpRequest, HttpResponse, Service
from homing.domain.errors import SettingsError
from homing.web import calls
from homing.web.answers import Answer, encode
from homing.web.auth import Gate, OpenGate
from homing.web.bodies import Bodies
from homing.web.calls import Call, query_of


def gate_for(access: Access, tokens: Gate) -> Gate | OpenGate:
    if access == "session":
        raise SettingsError("server", "access by session needs the console, which is not there yet")
    return OpenGate() if access == "trusted" else tokens


def endpoint_for(endpoint: Endpoint, service: Service[Any], bodies: Bodies) -> calls.Endpoint:
    """Reads the request whole within its limit, and answers what the handler gives."""

    async def act(call: Call) -> Response:
        body = b""
        if endpoint.method != "GET":
            body = await bodies.read_any(call, endpoint.max_body_bytes)
        return _answer(await endpoint.handle(service, _request(call, body)))

    return act


def _request(call: Call, body: bytes) -> HttpRequest:
    scope = call.scope
    return HttpRequest(
        method=scope["method"],
        path=scope["path"],
        path_params=dict(scope.get("path_params") or {}),
        query=query_of(scope, None),
        headers={
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        },
        body=body,
        caller=call.caller,
    )


def _answer(given: HttpResponse) -> Answer:
    body = given.body if given.json is None else encode(given.json)
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in given.headers.items()
    ]
    return Answer(body, given.status, given.content_type.encode("latin-1"), headers)

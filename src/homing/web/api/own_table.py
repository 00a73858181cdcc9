"""The web table of a plugin: its endpoints as endpoints of the application."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from homing.plugins.value import Access, Endpoint, HttpRequest, HttpResponse, Service
from homing.web.access.auth import AccessCheck, AnyAccessCheck, OpenAccess, PeopleAccessCheck
from homing.web.access.forms import checked_form, is_form
from homing.web.http import calls
from homing.web.http.answers import Answer, encode
from homing.web.http.bodies import Bodies
from homing.web.http.calls import Call, query_of


def access_check_for(access: Access, access_check: AccessCheck) -> AnyAccessCheck:
    if access == "trusted":
        return OpenAccess()
    return PeopleAccessCheck(access_check) if access == "session" else access_check


def endpoint_for(endpoint: Endpoint, service: Service[Any], bodies: Bodies) -> calls.Endpoint:
    """Reads the request whole within its limit, and answers what the handler gives."""

    async def act(call: Call) -> Response:
        body = b""
        if endpoint.method != "GET":
            body = await bodies.read_any(call, endpoint.max_body_bytes)
            if call.caller is not None and is_form(call):
                checked_form(call, body)
        return _answer(await endpoint.handle(service, _request(call, body)))

    return act


def _request(call: Call, body: bytes) -> HttpRequest:
    scope, caller = call.scope, call.caller
    return HttpRequest(
        method=scope["method"],
        path=scope["path"],
        path_params=dict(scope.get("path_params") or {}),
        query=query_of(scope, None),
        headers={
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        },
        body=body,
        caller=None if caller is None or caller.kind == "local" else caller.name,
        csrf_token=None if caller is None else caller.csrf_token,
    )


def _answer(given: HttpResponse) -> Answer:
    body = given.body if given.json is None else encode(given.json)
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in given.headers.items()
    ]
    return Answer(body, given.status, given.content_type.encode("latin-1"), headers)

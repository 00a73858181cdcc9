"""The paths of the application: each with its endpoints by method, behind their rights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from homing.engine.access.tokens import Right
from homing.web.access.auth import AccessCheck, AnyAccessCheck
from homing.web.access.forms import is_form
from homing.web.api.operations import PUBLIC, Operation
from homing.web.http.calls import Call, Endpoint
from homing.web.http.problems import problem


class Resource:
    """One path: its endpoints by method, each behind the right that it needs."""

    def __init__(self, access_check: AnyAccessCheck, *, takes_forms: bool = False) -> None:
        """With `takes_forms`, its endpoints check the CSRF token of a form (`checked_form`)."""
        self._access_check = access_check
        self._takes_forms = takes_forms
        self.served: dict[str, Served] = {}

    def serve(self, method: str, right: Right | Literal["public"], endpoint: Endpoint) -> None:
        served = Served(right, endpoint)
        for each in ("GET", "HEAD") if method == "GET" else (method,):
            self.served[each] = served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self.response(scope, receive)
        await response(scope, receive, send)

    async def response(self, scope: Scope, receive: Receive) -> Response:
        served = self.served.get(scope["method"])
        if served is None:
            return problem(405, headers=((b"allow", self._allowed()),))
        call = Call(scope, receive)
        try:
            if served.right != PUBLIC:
                form = self._takes_forms and is_form(call)
                refusal = await self._access_check.refusal(call, served.right, form=form)
                if refusal is not None:
                    return refusal
            return await served.endpoint(call)
        finally:
            if call.at_end is not None:
                call.at_end()

    def _allowed(self) -> bytes:
        return ", ".join(sorted(self.served)).encode()


class Served(Struct, frozen=True):
    right: Right | Literal["public"]
    endpoint: Endpoint


def resources(
    operations: tuple[Operation, ...], endpoints: Mapping[str, Endpoint], access_check: AccessCheck
) -> dict[str, Resource]:
    """By path. Each operation needs an endpoint and each endpoint an operation."""
    if endpoints.keys() != {operation.name for operation in operations}:
        raise KeyError("operations and endpoints do not match")
    found: dict[str, Resource] = {}
    for operation in operations:
        resource = found.setdefault(operation.path, Resource(access_check))
        resource.serve(operation.method, operation.right, endpoints[operation.name])
    return found

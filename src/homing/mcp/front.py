"""MCP by HTTP: the SDK's application, with the same access rules as REST."""

from __future__ import annotations

import time

from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from homing.mcp.server import CALLER
from homing.runtime.app import Homing
from homing.settings.tree import ServerSettings
from homing.web.access.auth import AccessCheck
from homing.web.http.calls import Call
from homing.web.http.problems import BadRequest, problem

PATH = "/mcp"


def application(server: MCPServer, homing: Homing, settings: ServerSettings) -> Starlette:
    """Every request needs the right to read; a replay needs the right to operate."""
    app = server.streamable_http_app(
        streamable_http_path=PATH, stateless_http=True, json_response=True, host=settings.host
    )
    access_check = AccessCheck(homing, settings, steady_s=time.monotonic)
    app.add_middleware(_Guarded, access_check=access_check)
    return app


class _Guarded:
    def __init__(self, app: ASGIApp, access_check: AccessCheck) -> None:
        self._app = app
        self._access_check = access_check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            call = Call(scope, receive)
        except BadRequest as error:
            await problem(400, detail=str(error))(scope, receive, send)
            return
        refusal = await self._access_check.refusal(call, "read")
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        scope[CALLER] = call.caller
        await self._app(scope, receive, send)

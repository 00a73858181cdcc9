"""The operator console as a part of another ASGI application."""

from __future__ import annotations

import time

from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from homing.domain.errors import StoreError
from homing.runtime.app import Homing
from homing.settings.tree import ServerSettings, Settings
from homing.web.access.auth import AccessCheck
from homing.web.api.inspection import Inspection
from homing.web.api.intake import Intake
from homing.web.api.listing import Listing
from homing.web.api.live import Live
from homing.web.application import Application
from homing.web.console.table import Console
from homing.web.http.bodies import Bodies


def console(homing: Homing, server: ServerSettings | None = None) -> Starlette:
    """`app.mount("/homing", console(homing))`: the console over a Homing that your application
    starts and stops. People sign in (`homing user create`), unless `server` says otherwise: an
    application that others can reach must not be open.
    """
    server = server or ServerSettings(auth="session")
    return _Mounted(homing, replace(Settings(), server=server))


class _Mounted(Application):
    """Knows no start of its own: it begins to watch with the first request."""

    def __init__(self, homing: Homing, settings: Settings) -> None:
        live = Live()
        access_check = AccessCheck(homing, settings.server, steady_s=time.monotonic)
        bodies = Bodies()
        intake = Intake(homing, bodies, settings.limits)
        inspection = Inspection(homing, Listing(homing), intake, None)
        table = Console(homing, live, bodies, access_check, intake, inspection).resources("")

        def met(error: StoreError) -> None:
            homing.engine.health.met(error)

        super().__init__(table, live, access_check, None, met)
        self._homing = homing
        self._watched: object = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._watched is not self._homing.engine:
            self._watched = self._homing.engine
            self._homing.engine.add_observer(self.live)
            self.live.begin()
        await super().__call__(scope, receive, send)

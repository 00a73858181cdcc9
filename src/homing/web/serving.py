"""Running the application under uvicorn, on the address that the settings name."""

from __future__ import annotations

import uvicorn
from starlette.applications import Starlette

from homing.settings.tree import ServerSettings

HEADER_BYTES = 32_768
KEEP_ALIVE_S = 30


def serve(app: Starlette, server: ServerSettings, *, stop_grace_s: float) -> None:
    """Serve until SIGTERM or SIGINT; then finish what is in hand."""
    config = uvicorn.Config(
        app,
        host=server.host,
        port=server.port,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        h11_max_incomplete_event_size=HEADER_BYTES,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=round(stop_grace_s),
    )
    uvicorn.Server(config).run()

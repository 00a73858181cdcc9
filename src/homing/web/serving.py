"""Running the application under uvicorn, on the address that the settings name."""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
from types import FrameType

import uvicorn

from homing import long_running
from homing.domain.errors import SettingsError
from homing.settings.tree import ServerSettings
from homing.web.application import Application
from homing.web.connection import HEAD_BYTES, Connection, most_connections

KEEP_ALIVE_S = 30
BACKLOG = 2048


def serve(app: Application, server: ServerSettings, *, stop_grace_s: float) -> None:
    """Serve until SIGTERM or SIGINT; then finish running requests."""
    # Checked before the store is opened: nothing else is changed when the port is taken.
    with contextlib.closing(bind(server.host, server.port)) as listener:
        long_running.run(Server(app, stop_grace_s).live(listener))


def bind(host: str, port: int) -> socket.socket:
    try:
        [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise SettingsError("server.host", f"cannot listen on {host}: {error}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise SettingsError(
            "server.port", f"cannot listen on {host}:{port}: {error.strerror}"
        ) from error
    return listener


class Server(uvicorn.Server):
    """uvicorn's server, without its own exit message and without waiting for event listeners."""

    def __init__(self, app: Application, stop_grace_s: float) -> None:
        # Its "info" and "warning" lines repeat what answers and other log lines say.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        Connection.most = most_connections()
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                h11_max_incomplete_event_size=HEAD_BYTES,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=max(round(stop_grace_s), 1),
                backlog=BACKLOG,
            )
        )
        self._app = app

    async def live(self, listener: socket.socket) -> None:
        """Start the application, serve, stop it. A refused start raises its own error."""
        async with self._app.router.lifespan_context(self._app):
            long_running.has_started()
            await self.serve(sockets=[listener])

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A second Ctrl-C is ignored. An orderly end does not exit by the signal."""
        del frame
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.live.end()
        await super().shutdown(sockets)

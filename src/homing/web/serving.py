"""Running the application under uvicorn, on the address that the settings name."""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import ssl
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from homing.domain.errors import SettingsError
from homing.runtime import long_running
from homing.settings.tree import ServerSettings
from homing.web.application import Application
from homing.web.http.connection import HEAD_BYTES, Connection, most_connections

KEEP_ALIVE_S = 30
BACKLOG = 2048


def serve(app: Starlette, server: ServerSettings, *, shutdown_grace_s: float) -> None:
    """Serve until SIGTERM or SIGINT; then finish running requests."""
    # Checked before the store is opened: a refused start changes nothing.
    tls = tls_context(server)
    with contextlib.closing(bind(server.host, server.port)) as listener:
        long_running.run(Server(app, shutdown_grace_s, tls).live(listener))


def bind(host: str, port: int) -> socket.socket:
    """A socket that is bound to this address; SettingsError if that is refused."""
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


def tls_context(server: ServerSettings) -> ssl.SSLContext | None:
    """The certificate and its key, or None if HTTPS is not asked for."""
    if server.tls_cert is None or server.tls_key is None:
        return None
    for name, path in (("tls_cert", server.tls_cert), ("tls_key", server.tls_key)):
        try:
            Path(path).open("rb").close()
        except OSError as error:
            raise SettingsError(f"server.{name}", f"cannot be read: {error.strerror}") from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without a password of its own, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(server.tls_cert, server.tls_key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(
            "server.tls_key",
            "is not the unencrypted private key of server.tls_cert, both in PEM format",
        ) from error
    return context


class Server(uvicorn.Server):
    """uvicorn's server, without its own exit message and without waiting for event listeners."""

    def __init__(
        self, app: Starlette, shutdown_grace_s: float, tls: ssl.SSLContext | None = None
    ) -> None:
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
                timeout_graceful_shutdown=max(round(shutdown_grace_s), 1),
                backlog=BACKLOG,
                ssl_context_factory=None if tls is None else lambda _config, _default: tls,
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
        """End the streams of events, then wait for running requests."""
        if isinstance(self._app, Application):
            self._app.live.end()
        await super().shutdown(sockets)

"""The fake under uvicorn."""

from __future__ import annotations

import logging
from types import FrameType

import uvicorn

from homing_systems.mock_graph.application import MockGraph


class Server(uvicorn.Server):
    """An orderly end does not exit by the signal, so that the caller can tidy up."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        del sig, frame
        self.should_exit = True


def new_server(fake: MockGraph) -> uvicorn.Server:
    """Run it with `serve(sockets=[listener])`, until SIGTERM or `should_exit`."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    server = Server(
        uvicorn.Config(
            fake.app,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
    )

    def cut(client: tuple[str, int]) -> None:
        for connection in list(server.server_state.connections):
            transport = getattr(connection, "transport", None)
            if getattr(connection, "client", None) == client and transport is not None:
                transport.abort()

    fake.cut = cut
    return server

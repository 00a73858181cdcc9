"""The fake of Graph on loopback, in a thread of this process, and a `.env` file for it."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from homing.providers.graph.provider import GraphProvider
from homing.providers.graph.settings import settings_from
from homing_systems.mock_graph import Behaviour, MockGraph, State
from homing_systems.mock_graph.serving import new_server

SENDER = "shop@example.org"
FIRST_TOKEN = "first-refresh-token"
ENV = f"""# Credentials of the shop.
export GRAPH_TENANT_ID=contoso
GRAPH_CLIENT_ID="client-1"
GRAPH_SENDER={SENDER}   # the mailbox

GRAPH_REFRESH_TOKEN='{FIRST_TOKEN}' # renewed by Homing
OTHER = "kept as it is"
"""


@dataclass
class Fake:
    url: str
    state: State
    env_file: Path

    def environ(self, **more: str) -> dict[str, str]:
        return {
            "GRAPH_ENV_FILE": str(self.env_file),
            "GRAPH_API_URL": f"{self.url}/v1.0",
            "GRAPH_LOGIN_URL": self.url,
            **more,
        }

    def provider(self, **more: str) -> GraphProvider:
        return GraphProvider(settings_from(self.environ(**more)))

    def sends(self) -> list[int]:
        """The statuses of the calls that send."""
        return [
            call["status"]
            for call in self.state.calls()
            if call["path"].endswith(("/sendMail", "/send"))
        ]

    def calls_of(self, part: str) -> list[dict[str, Any]]:
        return [call for call in self.state.calls() if part in call["path"]]


@contextmanager
def fake_graph(folder: Path, behaviour: Behaviour | None = None) -> Iterator[Fake]:
    state = State(folder / "graph")
    env_file = write_env(folder)
    server = new_server(MockGraph(state, behaviour or Behaviour()))
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(
            target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True
        )
        thread.start()
        try:
            yield Fake(f"http://127.0.0.1:{listener.getsockname()[1]}", state, env_file)
        finally:
            server.should_exit = True
            thread.join(10)


def write_env(folder: Path, text: str = ENV) -> Path:
    path = folder / ".env"
    path.write_text(text)
    path.chmod(0o600)
    return path

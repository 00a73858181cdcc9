"""What `homing.web` uses of uvicorn beyond its documentation, in the versions that are allowed."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from homing.web.http.connection import Connection

ROOT = Path(__file__).parents[3]
PROTOCOL = {
    *("connections", "cycle", "flow", "loop", "scope", "server_state", "timeout_keep_alive"),
    *("connection_lost", "connection_made", "data_received", "on_response_complete"),
    *("pause_writing", "resume_writing", "send_400_response", "transport"),
}
CALLED_BACK = {
    *("_start_asgi_task", "expect_100_continue", "headers", "pipeline"),
    *("on_body", "on_header", "on_headers_complete", "on_message_begin", "on_message_complete"),
}
CYCLE = {
    *("body", "disconnected", "keep_alive", "message_event", "more_body", "on_response"),
    *("response_complete", "response_started", "scope", "waiting_for_100_continue"),
}
FLOW = {"resume_reading", "write_paused"}
STATE = {"default_headers", "total_requests"}
SERVER = {"force_exit", "handle_exit", "serve", "should_exit", "shutdown"}


class Transport(asyncio.Transport):
    """Takes what is written to it."""

    def write(self, data: Any) -> None:
        del data

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing is open."""


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


def missing(names: set[str], found: object) -> set[str]:
    return {name for name in names if not hasattr(found, name)}


@pytest.mark.parametrize(
    ("kind", "further"), [(HttpToolsProtocol, CALLED_BACK), (H11Protocol, set())]
)
async def test_a_connection_has_what_ours_relies_on(kind: Any, further: set[str]) -> None:
    config = uvicorn.Config(_answer, lifespan="off", ws="none", log_config=None)
    config.load()
    protocol = kind(config=config, server_state=ServerState(), app_state={})
    protocol.connection_made(Transport())
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")

    assert missing(PROTOCOL | further, protocol) == set()
    assert missing(CYCLE, protocol.cycle) == set()
    assert missing(FLOW, protocol.flow) == set()
    assert missing(STATE, protocol.server_state) == set()
    await asyncio.gather(*protocol.tasks)
    protocol.connection_lost(None)


def test_the_names_above_are_those_that_a_connection_uses() -> None:
    """Its own are defined in its class; all others are uvicorn's."""
    tree = ast.parse(inspect.getsource(Connection))
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "super()")
    }
    own = set(vars(Connection)) - CALLED_BACK - PROTOCOL
    own |= {name for name in used if name.startswith("_") and name not in CALLED_BACK}

    assert used - own - PROTOCOL - CALLED_BACK == set()


def test_the_server_has_what_ours_relies_on() -> None:
    assert missing(SERVER, uvicorn.Server(uvicorn.Config(_answer))) == set()


def test_the_extra_allows_the_tested_minor_version_alone() -> None:
    """A minor version may change any of these names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [allowed] = [each for each in project["optional-dependencies"]["web"] if "uvicorn" in each]
    major, minor, *_ = map(int, version("uvicorn").split("."))

    assert allowed == f"uvicorn>={major}.{minor},<{major}.{minor + 1}"


def test_no_other_module_uses_them() -> None:
    package = ROOT / "src" / "homing"
    users = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"^\s*(?:from|import) uvicorn\b", path.read_text("utf-8"), re.MULTILINE)
    }

    assert users == {"web/http/connection.py", "web/serving.py"}

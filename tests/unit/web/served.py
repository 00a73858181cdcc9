"""The application behind its real server on loopback: in a thread here, or as `homing serve`."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from homing.web.application import Application
from homing.web.serving import Server, bind
from tests.servers import free_port

HOST = "127.0.0.1"
READY_WITHIN_S = 30.0
STOPPED_WITHIN_S = 30.0
# Leases are never scaled and no setting shortens them; a test cannot wait for real ones to end.
BRISK = """
from homing.engine.route import Route
Route.lease_s = property(lambda route: {lease})
from homing.cli import main
main()
"""


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass(slots=True)
class Served:
    """A server that answers on this port."""

    port: int
    pid: int = 0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> Answered:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=timeout_s)
        named = dict(headers or {})
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else msgspec.json.encode(body)
            named.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, data, named)
            answer = connection.getresponse()
            return Answered(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def post(self, key: str, **fields: object) -> Answered:
        body = {"to": ["ok@stub.test"], "text": "hello", **fields}
        return self.call("POST", "/api/v1/deliveries", body, {"Idempotency-Key": key})

    def connect(self, timeout_s: float = 30.0) -> socket.socket:
        return socket.create_connection((HOST, self.port), timeout=timeout_s)

    def rss_bytes(self) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        raise ProcessLookupError(self.pid)


@contextmanager
def in_thread(make: Callable[[], Awaitable[Application]]) -> Iterator[Served]:
    """In this process, in a loop of its own; `make` is called there."""
    listener = bind(HOST, 0)
    servers: list[Server] = []
    failures: list[BaseException] = []

    def run() -> None:
        async def live() -> None:
            servers.append(Server(await make(), shutdown_grace_s=5.0))
            await servers[0].live(listener)

        try:
            asyncio.run(live())
        except BaseException as error:  # told to the test, which waits in another thread
            failures.append(error)

    thread = threading.Thread(target=run, name="served", daemon=True)
    thread.start()
    served = Served(listener.getsockname()[1], os.getpid())
    try:
        _await_ready(served, lambda: bool(failures))
        yield served
    finally:
        for server in servers:
            server.should_exit = True
        thread.join(STOPPED_WITHIN_S)
        listener.close()
    if failures:
        raise failures[0]


@contextmanager
def homing_serve(folder: Path, *arguments: str, **settings: str) -> Iterator[Served]:
    """`homing serve` as people start it; killed by a test, it may be gone before the end."""
    port = free_port()
    process = start_serve(folder, port, *arguments, **settings)
    try:
        yield Served(port, process.pid)
    finally:
        stop(process)


def start_serve(
    folder: Path, port: int, *arguments: str, **settings: str
) -> subprocess.Popen[bytes]:
    """Ready when it returns. Settings read like `store="sqlite:///…"`, `routes__mail__timeout`."""
    process = launch(folder, "serve", *arguments, "--port", str(port), **settings)
    try:
        _await_ready(Served(port), lambda: process.poll() is not None)
    except BaseException:
        stop(process)
        raise
    return process


def launch(folder: Path, *arguments: str, **settings: str) -> subprocess.Popen[bytes]:
    """`homing …` with nothing set but this; what it prints is in `serve.log`.

    Two are no settings: `lease` shortens every lease, `shadow` is a folder of modules that
    stand before the installed ones.
    """
    environment = {name: value for name, value in os.environ.items() if "HOMING" not in name}
    environment |= {f"HOMING_{name.upper()}": value for name, value in settings.items()}
    if shadow := environment.pop("HOMING_SHADOW", None):
        environment["PYTHONPATH"] = shadow
    lease = environment.pop("HOMING_LEASE", None)
    program = ["-m", "homing"] if lease is None else ["-c", BRISK.format(lease=lease)]
    with (folder / "serve.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *program, *arguments],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
        )


def stop(process: subprocess.Popen[bytes]) -> int:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        return process.wait(STOPPED_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _await_ready(served: Served, has_failed: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline_s and not has_failed():
        try:
            if served.call("GET", "/readyz").status == 200:
                return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError("the server did not get ready")

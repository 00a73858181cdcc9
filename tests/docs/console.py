"""Running the `console` blocks of documents against a real service on a free port."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

DOCUMENTED_PORT = "8025"
PATIENCE_S = 20.0
_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
_MASKS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"in (?:\d+ (?:d|h|min|s) ?)+"), "in A-WHILE"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
)


class Service(Struct):
    """A `homing serve` in a folder of its own."""

    folder: Path
    port: int

    def run(self, command: str) -> str:
        """The command as a reader would type it, in the service's folder."""
        environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-c", command.replace(DOCUMENTED_PORT, str(self.port))],
            cwd=self.folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return done.stdout

    def run_until(self, command: str, expected: str) -> str:
        """Readers are slower than tests: a question is asked again until its answer is there."""
        shown = self.run(command)
        # The same request again is a question too.
        asks = command.startswith(("homing why", "homing attempts", "homing status")) or (
            '"created":false' in expected
        )
        deadline = time.monotonic() + PATIENCE_S
        while asks and masked(shown) != expected and time.monotonic() < deadline:
            shown = self.run(command)
        return shown


@contextmanager
def running_service(folder: Path) -> Iterator[Service]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (folder / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "homing", "serve", "--port", str(port)],
            cwd=folder,
            stdout=log,
            stderr=log,
        )
        try:
            _until_ready(port, process, folder / "serve.log")
            yield Service(folder, port)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)


def commands(document: str) -> Iterator[tuple[str, str]]:
    """Each `$ command` of the console blocks with the output that the document shows."""
    for block in _BLOCK.findall(document):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            yield command, expected


def masked(text: str) -> str:
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text.strip()


def _until_ready(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            continue
    raise AssertionError(f"the service did not become ready:\n{log.read_text()}")

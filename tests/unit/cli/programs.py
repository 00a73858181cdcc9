"""Real `homing` programs in processes of their own, on free ports, stopped by their pid."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

START_S = 30.0
STOP_S = 20.0
POLL_S = 0.02


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def clean_environ(settings: Mapping[str, str]) -> dict[str, str]:
    """This process's, without settings of its own, and with these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOMING_")}
    return {**kept, "PYTHONUNBUFFERED": "1", **settings}


def run(
    folder: Path, *words: str, code: int = 0, **settings: str
) -> subprocess.CompletedProcess[str]:
    """One command to its end, with the exit code that is expected."""
    return run_with(settings, folder, *words, code=code)


def run_with(
    settings: Mapping[str, str],
    folder: Path,
    *words: str,
    code: int = 0,
    command: Sequence[str] = ("-m", "homing"),
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *command, *words],
        cwd=folder,
        env=clean_environ(settings),
        capture_output=True,
        text=True,
        check=False,
        timeout=START_S,
    )
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def until(ready: Callable[[], Any], within_s: float = START_S, what: str = "it") -> Any:
    """The first answer that is true; nothing waits longer than it must."""
    deadline_s = time.monotonic() + within_s
    while not (answer := ready()):
        assert time.monotonic() < deadline_s, f"{what} did not come within {within_s} s"
        time.sleep(POLL_S)
    return answer


@dataclass
class Program:
    process: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        return self.log.read_text()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it by its own pid; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@dataclass
class Served(Program):
    url: str

    def get(self, path: str) -> httpx2.Response:
        return httpx2.get(f"{self.url}{path}")

    def post(self, key: str, **fields: Any) -> str:
        """A mail; its delivery id."""
        body = {"subject": "S", "text": "t", **fields}
        answer = httpx2.post(
            f"{self.url}/api/v1/deliveries", json=body, headers={"Idempotency-Key": key}
        )
        assert answer.status_code == 202, answer.text
        return str(answer.json()["delivery_id"])

    def delivery(self, delivery_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/api/v1/deliveries/{delivery_id}").json()
        return found

    def ends_as(self, delivery_id: str, state: str, within_s: float = START_S) -> dict[str, Any]:
        found: dict[str, Any] = until(
            lambda: (d := self.delivery(delivery_id)) and d["state"] == state and d,
            within_s,
            f"{delivery_id} {state}",
        )
        return found


@contextmanager
def started(folder: Path, command: Sequence[str], **settings: str) -> Iterator[Program]:
    log = folder / f"program-{len(list(folder.glob('program-*')))}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=folder, env=clean_environ(settings), stderr=output
        )
    program = Program(process, log)
    try:
        yield program
    finally:
        program.stop()


@contextmanager
def serving(
    folder: Path, *words: str, command: Sequence[str] = ("-m", "homing"), **settings: str
) -> Iterator[Served]:
    """`homing serve`, once it is ready."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    def is_ready() -> bool:
        assert program.process.poll() is None, program.said()
        try:
            return httpx2.get(f"{url}/readyz").status_code == 200
        except httpx2.TransportError:
            return False

    with started(folder, [*command, "serve", "--port", str(port), *words], **settings) as program:
        until(is_ready, what="serve")
        yield Served(program.process, program.log, url)

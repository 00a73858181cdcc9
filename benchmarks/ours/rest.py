"""`homing serve` under load: durable POSTs over keep-alive connections, worker in the same process.

The client is bytes over sockets and nothing else: on two cores every microsecond that it spends
is one that the server cannot have.
"""

import asyncio
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.contest.plan import PAYLOAD, Plan, report
from benchmarks.contest.queues import percentile

HOST = "127.0.0.1"
READY_WITHIN_S = 20.0
WARM_UP_S = 1.0
SPAN_S = 5.0
# A log line per delivery is optional and is not measured here.
LOG_LEVEL = "warning"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

BODY = b'{"to":["ann@example.org"],"subject":"Booked","text":"%b"}' % PAYLOAD.encode()
HEAD = (
    b"POST /api/v1/deliveries HTTP/1.1\r\nHost: %b:%d\r\nContent-Type: application/json\r\n"
    b"Idempotency-Key: %b-%d\r\nContent-Length: %d\r\n\r\n"
)


@dataclass(slots=True)
class Load:
    """What the connections have in common: the requests they take, the answers they got."""

    port: int
    ends_at_s: float
    run: bytes = field(default_factory=lambda: os.urandom(4).hex().encode())
    numbers: Iterator[int] = field(default_factory=itertools.count)
    waits_ms: list[float] = field(default_factory=list)
    refused: list[bytes] = field(default_factory=list)
    took_s: float = 0.0

    def request(self) -> bytes:
        where = (HOST.encode(), self.port, self.run, next(self.numbers), len(BODY))
        return HEAD % where + BODY


class Caller(asyncio.Protocol):
    """One keep-alive connection: the next request goes out when the answer is whole."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._answer = b""
        self._asked_at_s = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        self._asked_at_s = time.perf_counter()
        self._transport.write(self._load.request())

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if not end or len(body) < _length(head):
            return
        now_s = time.perf_counter()
        self._load.waits_ms.append((now_s - self._asked_at_s) * 1000)
        if not head.startswith(b"HTTP/1.1 202"):
            self._load.refused.append(self._answer)
        self._answer = b""
        if now_s < self._load.ends_at_s:
            self._ask()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if not self.done.done():
            self.done.set_result(None)


def _length(head: bytes) -> int:
    _, _, rest = head.lower().partition(b"\r\ncontent-length: ")
    return int(rest.partition(b"\r\n")[0])


async def post(port: int, connections: int, span_s: float) -> Load:
    """So many connections, each waiting for its own answer before it asks again."""
    load = Load(port, time.perf_counter() + span_s)
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda: Caller(load), HOST, port) for _ in range(connections)
    ]
    began_s = time.perf_counter()
    await asyncio.gather(*(caller.done for _, caller in made))
    load.took_s = time.perf_counter() - began_s
    if load.refused:
        raise RuntimeError(f"{len(load.refused)} refused: {load.refused[0][:300]!r}")
    return load


@dataclass(slots=True)
class Serving:
    """A running `homing serve`."""

    pid: int
    port: int
    ready_s: float

    def cpu_s(self) -> float:
        stat = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / TICKS_PER_S

    def peak_rss_mb(self) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1000
        raise RuntimeError("no VmHWM")

    def get(self, path: str) -> bytes:
        request = f"GET {path} HTTP/1.1\r\nHost: {HOST}:{self.port}\r\nConnection: close\r\n\r\n"
        with socket.create_connection((HOST, self.port), timeout=30) as connection:
            connection.sendall(request.encode())
            return b"".join(iter(lambda: connection.recv(65536), b""))


@contextmanager
def serving(folder: Path, *, worker: bool = True) -> Iterator[Serving]:
    port = _free_port()
    environment = os.environ | {
        "HOMING_STORE": f"sqlite:///{folder / 'homing.db'}",
        "HOMING_PROVIDER": "stub:",
        "HOMING_LOG__LEVEL": LOG_LEVEL,
    }
    command = [sys.executable, "-m", "homing", "serve", "--port", str(port)]
    command += [] if worker else ["--no-worker"]
    began_s = time.perf_counter()
    process = subprocess.Popen(command, env=environment, cwd=folder)
    try:
        server = Serving(process.pid, port, 0.0)
        while not _is_ready(server):
            if process.poll() is not None or time.perf_counter() - began_s > READY_WITHIN_S:
                raise RuntimeError("homing serve did not get ready")
            time.sleep(0.01)
        server.ready_s = time.perf_counter() - began_s
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_ready(server: Serving) -> bool:
    try:
        return b" 200 " in server.get("/readyz").partition(b"\r\n")[0]
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def main() -> None:
    plan = Plan.from_environment()
    with serving(plan.data) as server:
        asyncio.run(post(server.port, plan.callers, min(WARM_UP_S, plan.budget_s)))
        cpu_s = server.cpu_s()
        load = asyncio.run(post(server.port, plan.callers, min(SPAN_S, plan.budget_s * 2)))
        cpu_us = (server.cpu_s() - cpu_s) / len(load.waits_ms) * 1e6
        waits_ms = sorted(load.waits_ms)
        report(
            {
                "rest_post": len(waits_ms) / load.took_s,
                "rest_p99": percentile(waits_ms, 0.99),
                "serve_ready": server.ready_s,
                "serve_rss": server.peak_rss_mb(),
            },
            {
                "requests": len(waits_ms),
                "p50_ms": round(percentile(waits_ms, 0.5), 2),
                "max_ms": round(waits_ms[-1], 2),
                "server_cpu_us": round(cpu_us, 1),
                "worker": "in the same process, stub provider",
                "log": f"level {LOG_LEVEL}",
            },
        )


if __name__ == "__main__":
    main()

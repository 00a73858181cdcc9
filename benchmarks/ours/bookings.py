"""How long a booking waits while the SMTP server hangs, and while it is healthy.

A booking answers once its own change is committed, so both should wait alike.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.contest.plan import Plan, report
from benchmarks.contest.queues import percentile
from benchmarks.ours.rest import HOST, LOG_LEVEL, _free_port

READY_WITHIN_S = 60.0
REQUESTS = 300
WARM_UP = 20
FIRST_SLOT = datetime.now(UTC) + timedelta(days=1)
HEAD = (
    "POST /api/book HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    "Content-Length: {length}\r\n\r\n"
)


@asynccontextmanager
async def smtp_server(*, hangs: bool) -> AsyncIterator[int]:
    """It takes every mail, or greets and never says anything more."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The end of the loop cancels it, which asyncio's streams would print.
        with suppress(asyncio.CancelledError, ConnectionError):
            await _take_mails(reader, writer, hangs=hangs)
        writer.close()

    server = await asyncio.start_server(talk, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def _take_mails(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, hangs: bool
) -> None:
    writer.write(b"220 bench\r\n")
    in_data = False
    while line := await reader.readline():
        if hangs:
            continue
        if in_data:
            in_data = line != b".\r\n"
            answer = b"" if in_data else b"250 taken\r\n"
        else:
            in_data = line[:4].upper() == b"DATA"
            answer = b"354 go on\r\n" if in_data else b"250 bench\r\n"
        writer.write(answer)


@contextmanager
def bookings(folder: Path, smtp_port: int) -> Iterator[int]:
    folder.mkdir()
    port = _free_port()
    environment = os.environ | {
        "HOMING_STORE": f"sqlite:///{folder / 'bookings.db'}",
        "HOMING_PROVIDER": f"smtp://{HOST}:{smtp_port}?tls=none",
        "HOMING_SENDER": "host@example.org",
        "HOMING_SHUTDOWN_GRACE": "1s",
        "HOMING_LOG__LEVEL": LOG_LEVEL,
    }
    command = [sys.executable, "-m", "homing", "bookings", "serve", "--port", str(port)]
    process = subprocess.Popen(command, env=environment, cwd=folder)
    try:
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    until_s = time.perf_counter() + READY_WITHIN_S
    while True:
        try:
            return await asyncio.open_connection(HOST, port)
        except OSError:
            if time.perf_counter() > until_s:
                raise
            await asyncio.sleep(0.05)


async def waits_ms(folder: Path, *, hangs: bool) -> list[float]:
    """How long each booking waited, in order of length; one after the other."""
    async with smtp_server(hangs=hangs) as smtp_port:
        with bookings(folder, smtp_port) as port:
            reader, writer = await connect(port)
            taken = [await _book(reader, writer, port, slot) for slot in range(WARM_UP + REQUESTS)]
            writer.close()
    return sorted(taken[WARM_UP:])


async def _book(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, slot: int
) -> float:
    start = (FIRST_SLOT + timedelta(hours=slot)).isoformat()
    body = json.dumps({"name": "Ann", "email": "ann@example.org", "start": start, "title": "Call"})
    began_s = time.perf_counter()
    writer.write((HEAD.format(host=HOST, port=port, length=len(body)) + body).encode())
    head = await reader.readuntil(b"\r\n\r\n")
    _, _, rest = head.lower().partition(b"content-length: ")
    await reader.readexactly(int(rest.partition(b"\r\n")[0]))
    took_ms = (time.perf_counter() - began_s) * 1000
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise RuntimeError(f"refused: {head!r}")
    return took_ms


def main() -> None:
    plan = Plan.from_environment()
    healthy = asyncio.run(waits_ms(plan.data / "healthy", hangs=False))
    hanging = asyncio.run(waits_ms(plan.data / "hanging", hangs=True))
    report(
        {"booking_delay": max(percentile(hanging, 0.99) - percentile(healthy, 0.99), 0.0)},
        {
            "requests": REQUESTS,
            "healthy_p99_ms": round(percentile(healthy, 0.99), 2),
            "hanging_p99_ms": round(percentile(hanging, 0.99), 2),
        },
    )


if __name__ == "__main__":
    main()

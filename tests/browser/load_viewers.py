"""Viewers without a browser: each keeps a stream open, and reads its page again at every tick."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tests.unit.web.served import HOST, Served

OPENED_PER_S = 100


@dataclass(slots=True)
class Seen:
    ticks: int = 0
    reads: int = 0
    failures: int = 0


@contextmanager
def viewers(served: Served, number: int, paths: Sequence[str]) -> Iterator[Seen]:
    """In a thread of their own, until the block ends."""
    seen = Seen()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def watch() -> None:
        tasks = []
        for each in range(number):
            tasks.append(asyncio.ensure_future(_view(served, paths[each % len(paths)], seen)))
            await asyncio.sleep(1 / OPENED_PER_S)
        await over.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(watch(),))
    thread.start()
    try:
        yield seen
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


async def _view(served: Served, path: str, seen: Seen) -> None:
    reader, writer = await asyncio.open_connection(HOST, served.port)
    try:
        writer.write(_request("/live"))
        while line := await reader.readline():
            if line == b"event: tick\n":
                seen.ticks += 1
                await _read(served, path, seen)
        seen.failures += 1
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _read(served: Served, path: str, seen: Seen) -> None:
    reader, writer = await asyncio.open_connection(HOST, served.port)
    writer.write(_request(path, close=True))
    answer = await reader.read()
    writer.close()
    seen.reads += 1
    if not answer.startswith(b"HTTP/1.1 200 "):
        seen.failures += 1


def _request(path: str, *, close: bool = False) -> bytes:
    end = "Connection: close\r\n\r\n" if close else "\r\n"
    return f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n{end}".encode()

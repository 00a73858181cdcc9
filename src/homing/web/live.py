"""Server-sent events: every transition as it happens, for the console and for scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from homing.ports import Transitioned

QUEUE = 256
KEEP_ALIVE_S = 15.0


class LiveEvent(Struct, frozen=True):
    """Names and states only: no address, no content."""

    transition: str
    delivery_id: str
    route: str
    state: str
    error_class: str | None
    at_ms: int


class Live:
    """An observer with many listeners. A slow one misses events rather than holding others up."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Queue[bytes]] = set()

    def observe(self, events: Sequence[Transitioned]) -> None:
        if not self._listeners:
            return
        for event in events:
            failure = event.delivery.failure
            shown = LiveEvent(
                event.name,
                event.delivery.id,
                event.delivery.route,
                event.delivery.state,
                failure.error_class if failure else None,
                event.at_ms,
            )
            line = b"event: transition\ndata: " + msgspec.json.encode(shown) + b"\n\n"
            for queue in self._listeners:
                if not queue.full():
                    queue.put_nowait(line)

    async def stream(self, request: Request) -> Response:
        del request
        return StreamingResponse(self._lines(), media_type="text/event-stream")

    async def _lines(self) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue(QUEUE)
        self._listeners.add(queue)
        try:
            yield b": homing\n\n"
            while True:
                try:
                    async with asyncio.timeout(KEEP_ALIVE_S):
                        line = await queue.get()
                except TimeoutError:
                    line = b": still here\n\n"
                yield line
        finally:
            self._listeners.discard(queue)

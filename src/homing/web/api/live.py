"""Server-sent events: every transition as it happens, for the console and for scripts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from homing.domain.delivery import State
from homing.domain.errors import Overloaded
from homing.ports import Transitioned
from homing.web.api.listing import Listing
from homing.web.api.ticks import Ticks
from homing.web.http.answers import encode
from homing.web.http.calls import Call, query_of

MAX_LISTENERS = 100
MAX_WAITING = 256
KEEP_ALIVE_S = 15.0
EVENT_STREAM = b"text/event-stream; charset=utf-8"
FILTERS = frozenset({"route"})


class LiveEvent(Struct, frozen=True):
    """Names and states only: no address, no content."""

    transition: str
    delivery_id: str
    route: str
    state: State
    error_class: str | None
    at_ms: int


class Listener:
    """What waits for one connection. A slow one misses events and is told how many."""

    def __init__(self, route: str | None) -> None:
        self.route = route
        self.ended = False
        self._lines: deque[bytes] = deque()
        self._missed = 0
        self._news = asyncio.Event()

    def put(self, line: bytes) -> None:
        if len(self._lines) < MAX_WAITING:
            self._lines.append(line)
        else:
            self._missed += 1
        self._news.set()

    def end(self) -> None:
        self.ended = True
        self._news.set()

    async def lines(self) -> bytes:
        """All that has gathered; after a while without any, a sign of life."""
        try:
            async with asyncio.timeout(KEEP_ALIVE_S):
                await self._news.wait()
        except TimeoutError:
            return b": still here\n\n"
        self._news.clear()
        gathered = b"".join(self._lines)
        self._lines.clear()
        if self._missed:
            gathered += b'event: missed\ndata: {"count":%d}\n\n' % self._missed
            self._missed = 0
        return gathered


class Live:
    """An observer with many listeners; none of them can delay the engine."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._ended = False
        self.ticks = Ticks()

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def observe(self, events: Sequence[Transitioned]) -> None:
        self.ticks.observe(events)
        if not self._listeners:
            return
        for event in events:
            line = b"event: transition\ndata: " + encode(_shown(event)) + b"\n\n"
            for listener in self._listeners:
                if listener.route in (None, event.delivery.route):
                    listener.put(line)

    async def stream(self, call: Call, listing: Listing) -> Response:
        query = query_of(call.scope, FILTERS)
        await listing.demand_route(query.get("route"))
        if len(self._listeners) >= MAX_LISTENERS or self._ended:
            raise Overloaded("too many listeners")
        return EventStream(self, Listener(query.get("route")), call)

    def begin(self) -> None:
        self._ended = False
        self.ticks.begin()

    def end(self) -> None:
        """The server stops: end all listeners, so that it does not wait for them."""
        self._ended = True
        for listener in self._listeners:
            listener.end()
        self.ticks.end()

    def add(self, listener: Listener) -> None:
        self._listeners.add(listener)

    def discard(self, listener: Listener) -> None:
        self._listeners.discard(listener)


class Hearer(Protocol):
    """The other end of a stream: `lines` waits for what is to be sent next."""

    @property
    def ended(self) -> bool: ...

    def end(self) -> None: ...

    async def lines(self) -> bytes: ...


class Hearers(Protocol):
    """Those who are listening now."""

    def add(self, listener: Any, /) -> None: ...

    def discard(self, listener: Any, /) -> None: ...


class EventStream(Response):
    """Lasts until the listener leaves, may not listen any more, or the server stops."""

    def __init__(self, live: Hearers, listener: Hearer, call: Call) -> None:
        self._live = live
        self._listener = listener
        self._call = call

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            self._listener.end()
        self._live.add(self._listener)
        sender = asyncio.ensure_future(self._send(send))
        leaver = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait((sender, leaver), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._live.discard(self._listener)
            sender.cancel()
            leaver.cancel()
            await asyncio.gather(sender, leaver, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        headers = [(b"content-type", EVENT_STREAM), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        line = b"retry: 3000\n: homing\n\n"
        while not self._listener.ended:
            await send({"type": "http.response.body", "body": line, "more_body": True})
            line = await self._listener.lines()
            still_let_in = self._call.let_in_by
            if still_let_in is not None and not await still_let_in(self._call):
                self._listener.end()
        await send({"type": "http.response.body", "body": b""})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _shown(event: Transitioned) -> LiveEvent:
    delivery = event.delivery
    return LiveEvent(
        event.name,
        delivery.id,
        delivery.route,
        delivery.state,
        delivery.failure.error_class if delivery.failure else None,
        event.at_ms,
    )

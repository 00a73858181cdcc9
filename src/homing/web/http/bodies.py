"""Reads bodies: a limited number of bytes each, in a limited time, and limited together."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable

from starlette.requests import ClientDisconnect
from starlette.types import Message

from homing.engine.work.time_limits import TimeLimits
from homing.web.http.answers import LINE, Line
from homing.web.http.calls import Call
from homing.web.http.problems import BadRequest

# A sender has this long for its first bytes; after them it must reach the rate below.
PATIENCE_S = 20.0
SLOWEST_BYTES_PER_S = 50_000
# What all bodies that are still being read or worked on may hold together.
ROOM_BYTES = 96_000_000
# Short ones are not counted: the number of connections bounds them.
SHORT_BYTES = 65_536
_JSON = re.compile(rb"application/json *(?:; *charset=\"?utf-8\"?)?", re.IGNORECASE)


class Bodies:
    """Reads JSON bodies. A large one counts towards the common limit until its call is over."""

    def __init__(
        self,
        room_bytes: int = ROOM_BYTES,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._room_bytes = room_bytes
        self._patience_s = patience_s
        self._clock = clock
        self._limits = TimeLimits()
        self.held_bytes = 0

    async def read(self, call: Call, limit_bytes: int) -> bytes:
        """The whole body; BadRequest when it is not JSON, too large, or too slow."""
        kind = call.once.get(b"content-type", b"")
        if kind != b"application/json" and not _JSON.fullmatch(kind):
            raise BadRequest("send application/json in UTF-8", "Content-Type", 415)
        return await self.read_any(call, limit_bytes)

    async def read_any(self, call: Call, limit_bytes: int) -> bytes:
        """As `read`, of any kind of content."""
        headers = call.once
        if b"content-encoding" in headers:
            raise BadRequest("send the body as it is", "Content-Encoding", 415)
        line: Line | None = call.scope.get(LINE)
        body = None if line is None else line.body()
        if body is not None and len(body) <= SHORT_BYTES and len(body) <= limit_bytes:
            return body
        declared = headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared) > 2 * limit_bytes:
            raise _too_large(limit_bytes)
        if body is None:
            message = await self._next(call, self._patience_s)
        else:
            message = {"body": body, "more_body": False}
        return await self._read_on(call, message, limit_bytes)

    async def _read_on(self, call: Call, message: Message, limit_bytes: int) -> bytes:
        began_s = self._clock()
        body = bytearray()
        try:
            while True:
                chunk: bytes = message.get("body", b"")
                if len(body) + len(chunk) > limit_bytes:
                    break
                self._take(len(chunk))
                body += chunk
                if not message.get("more_body"):
                    return self._kept(call, body)
                allowed_s = self._patience_s + len(body) / SLOWEST_BYTES_PER_S
                message = await self._next(call, began_s + allowed_s - self._clock())
        except BaseException:
            self.held_bytes -= len(body)
            raise
        self.held_bytes -= len(body)
        await self._drop_rest(call, message, limit_bytes)
        raise _too_large(limit_bytes)

    def _kept(self, call: Call, body: bytearray) -> bytes:
        size = len(body)
        if size <= SHORT_BYTES:
            self._give_back(size)
        else:
            # Decoded and encoded again it is as large as before, until it is stored.
            call.at_end = functools.partial(self._give_back, size)
        return bytes(body)

    def _give_back(self, size: int) -> None:
        self.held_bytes -= size

    async def _drop_rest(self, call: Call, message: Message, limit_bytes: int) -> None:
        """Read on for a while and discard it, so that the caller can read the answer."""
        left = limit_bytes
        ends_at_s = self._clock() + self._patience_s
        while message.get("more_body") and left > 0 and self._clock() < ends_at_s:
            message = await self._next(call, ends_at_s - self._clock())
            left -= len(message.get("body", b""))

    async def _next(self, call: Call, patience_s: float) -> Message:
        try:
            # A Coroutine in all known servers; ASGI's types only say Awaitable.
            message: Message = await self._limits.bound(call.receive(), max(patience_s, 0.0))  # type: ignore[arg-type]
        except TimeoutError:
            raise BadRequest("came too slowly", "body", 408) from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        return message

    def _take(self, size: int) -> None:
        if self.held_bytes + size > self._room_bytes:
            raise BadRequest("too many large bodies at once; try again later", "body", 503)
        self.held_bytes += size


def _too_large(limit_bytes: int) -> BadRequest:
    return BadRequest(f"is larger than {limit_bytes:,} bytes", "body", 413)

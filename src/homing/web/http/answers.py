"""Answers as bytes: the body, its kind, and the headers that all of them have."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Protocol

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

JSON = b"application/json"
HTML = b"text/html; charset=utf-8"
CSS = b"text/css; charset=utf-8"

# The names of RFC 9110, whatever the library of this Python calls them.
PHRASES = {status.value: status.phrase for status in HTTPStatus} | {
    413: "Content Too Large",
    422: "Unprocessable Content",
}

RawHeaders = list[tuple[bytes, bytes]]

SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (
        b"content-security-policy",
        (
            b"default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none';"
            b" frame-ancestors 'none'"
        ),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)

encode = msgspec.json.Encoder().encode


# In the scope of a request, where the server deals in whole messages (see connection.py).
LINE = "homing.line"


class Line(Protocol):
    """Whole messages instead of ASGI's pieces, where the server can; each method may decline."""

    def body(self) -> bytes | None:
        """The whole body, if it is all there already."""

    def take(self, answer: Answer) -> bool:
        """Send a whole answer at once; False: nothing was sent."""


class Answer(Response):
    """A response whose bytes are ready: nothing is guessed, rendered or looked up."""

    def __init__(
        self,
        body: bytes,
        status: int = 200,
        kind: bytes = JSON,
        headers: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        self.status_code = status
        self.body = body
        self.kind = kind
        self.extra: RawHeaders = list(headers)
        self.background = None

    def all_headers(self) -> RawHeaders:
        length = (b"content-length", b"%d" % len(self.body))
        return [length, (b"content-type", self.kind), *self.extra]

    def is_taken(self, scope: Scope) -> bool:
        """Whether the server has sent it as a whole, or it still has to be sent."""
        line: Line | None = scope.get(LINE)
        return line is not None and line.take(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.is_taken(scope):
            self.raw_headers = self.all_headers()
            await super().__call__(scope, receive, send)


def json_answer(value: object, status: int = 200) -> Answer:
    return Answer(encode(value), status)


def add_security(headers: RawHeaders) -> None:
    """Those that the answer does not set itself; a page may have a policy of its own."""
    given = {name for name, _ in headers}
    headers.extend(pair for pair in SECURITY_HEADERS if pair[0] not in given)

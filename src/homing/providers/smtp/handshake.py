"""From the greeting to a session ready for mail, without I/O.

A generator: it yields what to say (or that TLS must start now) and is sent the server's reply.
"""

from __future__ import annotations

import base64
from collections.abc import Generator
from typing import TypeAlias

from msgspec import Struct

from homing.providers.smtp.exchange import Phase
from homing.providers.smtp.features import Features, parse_features
from homing.providers.smtp.replies import Reply
from homing.providers.smtp.url import Credentials, Tls


class Say(Struct, frozen=True):
    """Write `line` (nothing, when empty) and wait for one reply."""

    phase: Phase
    line: bytes = b""


class StartTls(Struct, frozen=True):
    """Start TLS on this connection, then go on."""


class Refused(Exception):
    """The session cannot be used. `reply` is None when the server only lacks something."""

    def __init__(self, phase: Phase, reply: Reply | None = None) -> None:
        super().__init__(phase)
        self.phase = phase
        self.reply = reply


Steps: TypeAlias = Generator[Say | StartTls, Reply | None, Features]


def handshake(*, helo: str, tls: Tls, credentials: Credentials | None) -> Steps:
    """Ends with the server's features. The caller sees to it that without TLS it is loopback."""
    greeting = yield Say("connect")
    if greeting is None or greeting.code != 220:
        raise Refused("connect", greeting)
    features = yield from _hello(helo)
    if tls == "starttls":
        if not features.starttls:
            raise Refused("tls")
        reply = yield Say("tls", b"STARTTLS\r\n")
        if reply is None or reply.code != 220:
            raise Refused("tls", reply)
        yield StartTls()
        features = yield from _hello(helo)  # what was said in the clear counts no more
    if credentials is not None:
        yield from _login(features, credentials)
    return features


def _hello(helo: str) -> Steps:
    reply = yield Say("connect", f"EHLO {helo}\r\n".encode())
    if reply is not None and reply.kind == 5 and reply.code not in (521, 554):
        reply = yield Say("connect", f"HELO {helo}\r\n".encode())
    if reply is None or reply.code != 250:
        raise Refused("connect", reply)
    return parse_features(reply)


def _login(
    features: Features, credentials: Credentials
) -> Generator[Say | StartTls, Reply | None, None]:
    user, password = credentials.user, credentials.password
    if "PLAIN" in features.auth:
        words = ["AUTH PLAIN " + _base64(f"\0{user}\0{password}")]
    elif "LOGIN" in features.auth:
        words = ["AUTH LOGIN", _base64(user), _base64(password)]
    else:
        raise Refused("auth")
    for position, word in enumerate(words, start=1):
        reply = yield Say("auth", f"{word}\r\n".encode())
        expected = 235 if position == len(words) else 334
        if reply is None or reply.code != expected:
            raise Refused("auth", reply)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()

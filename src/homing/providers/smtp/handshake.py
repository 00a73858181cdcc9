"""From the greeting to a session that is secured, without I/O.

A generator: it yields what to say (or that TLS must start now) and is sent the server's reply.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

from homing.providers.smtp.features import Features, parse_features
from homing.providers.smtp.replies import Reply
from homing.providers.smtp.steps import Refused, Say, StartTls
from homing.providers.smtp.url import Tls

Steps: TypeAlias = Generator[Say | StartTls, Reply, Features]


def handshake(*, helo: str, tls: Tls) -> Steps:
    """Ends with the server's features. Where TLS is not used, the caller checks who the peer is."""
    greeting = yield Say("connect")
    if greeting.code != 220:
        raise Refused("connect", greeting)
    features = yield from _hello(helo)
    if tls == "starttls":
        if not features.starttls:
            raise Refused("tls", "missing")
        reply = yield Say("tls", b"STARTTLS\r\n")
        if reply.code != 220:
            raise Refused("tls", reply)
        yield StartTls()
        features = yield from _hello(helo)  # what was said in the clear counts no more
    return features


def _hello(helo: str) -> Steps:
    reply = yield Say("connect", f"EHLO {helo}\r\n".encode())
    if reply.kind == 5 and reply.code not in (521, 554):
        reply = yield Say("connect", f"HELO {helo}\r\n".encode())
    if reply.code != 250:
        raise Refused("connect", reply)
    return parse_features(reply)

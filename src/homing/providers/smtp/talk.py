"""What one way to log in says: a generator of responses, which is sent the server's challenges."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

from msgspec import Struct

# The first value is the response that goes with the command; None if the server speaks first. It
# is sent None when the server has accepted the login.
Talk: TypeAlias = Generator[bytes | None, bytes | None, None]


class Login(Struct, frozen=True):
    """As whom and with what; `secret` is a password or a token. Never shown."""

    user: str
    secret: str
    host: str
    port: int

    def __repr__(self) -> str:
        return "Login([hidden])"


class Cancelled(Exception):
    """The challenge makes no sense: give up this way and try another."""


class Untrusted(Exception):
    """The server accepts the login and has not proved that it knows the password."""

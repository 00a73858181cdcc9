"""The cookie of a session, and the token against forged requests that is derived from it."""

from __future__ import annotations

import hashlib
import hmac
import re

from homing.web.calls import Call
from homing.web.origins import is_plain_loopback

SESSION = "homing_session"
# In proxy mode: only a secret of this browser, from which its CSRF token is derived.
BROWSER = "homing_browser"
# Browsers take a cookie of such a name only from the host itself, by HTTPS: no neighbour, and no
# one on the network, can put another one in its place.
HOST_ONLY = "__Host-"
_SECRET = re.compile(r"[0-9a-f]{64}")

Header = tuple[bytes, bytes]


def secret_in(call: Call, name: str) -> str | None:
    """The secret in this cookie. One that is there twice is none: which is ours is unknown."""
    wanted = _full_name(call, name)
    pairs = [
        pair.strip().partition("=")
        for pair in call.once.get(b"cookie", b"").decode("latin-1").split(";")
    ]
    found = [value for key, _, value in pairs if key == wanted]
    return found[0] if len(found) == 1 and _SECRET.fullmatch(found[0]) else None


def setting(call: Call, name: str, secret: str) -> Header:
    """The header that sets it: for this browser session, unreadable for scripts."""
    return _header(call, f"{_full_name(call, name)}={secret}")


def clearing(call: Call, name: str) -> Header:
    return _header(call, f"{_full_name(call, name)}=; Max-Age=0")


def csrf_token(secret: str) -> str:
    """Pages of other sites neither know it nor can read it."""
    return hmac.new(secret.encode(), b"csrf", hashlib.sha256).hexdigest()


def _header(call: Call, pair: str) -> Header:
    secure = "" if is_plain_loopback(call) else "; Secure"
    return (b"set-cookie", f"{pair}; Path=/; HttpOnly; SameSite=Strict{secure}".encode())


def _full_name(call: Call, name: str) -> str:
    return name if is_plain_loopback(call) else HOST_ONLY + name

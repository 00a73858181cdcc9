"""The cookie of a session, and the token against forged requests that is derived from it."""

from __future__ import annotations

import hashlib
import hmac
import re

from homing.web.access.origins import is_plain_loopback
from homing.web.http.calls import Call

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
    found = _found(call, name)
    return found[0][1] if len(found) == 1 and _SECRET.fullmatch(found[0][1]) else None


def setting(call: Call, name: str, secret: str, *, by_https: bool) -> Header:
    """The header that sets it: for this browser session, unreadable for scripts. `by_https`: the
    browser is known to speak HTTPS, even if this call came in plain text from this machine."""
    secure = by_https or not is_plain_loopback(call)
    return _header(f"{HOST_ONLY if secure else ''}{name}={secret}", secure=secure)


def clearing(call: Call, name: str) -> Header:
    """Removes it under the name that it came by."""
    full_name = next((each for each, _ in _found(call, name)), HOST_ONLY + name)
    return _header(f"{full_name}=; Max-Age=0", secure=full_name.startswith(HOST_ONLY))


def csrf_token(secret: str) -> str:
    """Pages of other sites neither know it nor can read it."""
    return hmac.new(secret.encode(), b"csrf", hashlib.sha256).hexdigest()


def _header(pair: str, *, secure: bool) -> Header:
    flags = "Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if secure else "")
    return (b"set-cookie", f"{pair}; {flags}".encode())


def _found(call: Call, name: str) -> list[tuple[str, str]]:
    """By its full name; the one without a prefix counts in plain text on this machine alone."""
    wanted = {HOST_ONLY + name, name} if is_plain_loopback(call) else {HOST_ONLY + name}
    pairs = (
        pair.strip().partition("=")
        for pair in call.once.get(b"cookie", b"").decode("latin-1").split(";")
    )
    return [(key, value) for key, _, value in pairs if key in wanted]

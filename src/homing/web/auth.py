"""Who may call: open on loopback to this machine's programs, tokens with roles elsewhere."""

from __future__ import annotations

import functools
import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable

from homing.domain.errors import SettingsError
from homing.domain.loopback import is_loopback
from homing.engine.tokens import RIGHTS, Right, Token, Tokens
from homing.web.answers import Answer
from homing.web.calls import Call
from homing.web.problems import problem

# How long the lookup of a token is cached; a revoked token works for at most this long.
TRUST_S = 2.0
MAX_TRUSTED = 1024
_BEARER = re.compile(rb"bearer +(?P<secret>[!-~]{1,512})", re.IGNORECASE)
_HOST = re.compile(rb"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,255})(?::[0-9]{1,5})?")


async def check_bind(host: str, tokens: Tokens) -> None:
    """Refuse to listen on an address other than loopback while there is no token."""
    if not is_loopback(host) and not await tokens.all():
        raise SettingsError(
            "server.host",
            f"{host} is not loopback and there are no API tokens; make one first:"
            " homing token make NAME --role admin",
        )


class Gate:
    """Lets a call through to what needs a right, or says why not."""

    def __init__(self, tokens: Tokens, *, open_to_all: bool, steady_s: Callable[[], float]) -> None:
        self._tokens = tokens
        self._open = open_to_all
        self._steady_s = steady_s
        self._trusted: OrderedDict[bytes, tuple[float, Token]] = OrderedDict()

    async def refusal(self, call: Call, right: Right) -> Answer | None:
        if self._open:
            return foreign(call)
        token = await self._token(call.once.get(b"authorization"))
        if token is None:
            return problem(401, detail="a valid API token is required", field="Authorization")
        if right not in RIGHTS[token.role]:
            return problem(403, detail=f"role {token.role} may not {right}")
        call.caller = token.name
        return None

    async def _token(self, header: bytes | None) -> Token | None:
        found = _BEARER.fullmatch(header or b"")
        if found is None:
            return None
        # Always by its hash, known or not: the same work, and no comparison of the secret itself.
        digest = hashlib.sha256(found["secret"]).digest()
        until_s, token = self._trusted.get(digest, (0.0, None))
        if token is not None and self._steady_s() < until_s:
            return token
        token = await self._tokens.check(found["secret"].decode("ascii"))
        if token is None:
            self._trusted.pop(digest, None)
            return None
        self._trusted[digest] = (self._steady_s() + TRUST_S, token)
        while len(self._trusted) > MAX_TRUSTED:
            self._trusted.popitem(last=False)
        return token


class OpenGate:
    """Allows every caller that reaches the port: for a network that is trusted."""

    async def refusal(self, call: Call, right: Right) -> Answer | None:
        del call, right
        return None


def foreign(call: Call) -> Answer | None:
    """Open means open to programs of this machine, but not to web pages in its browser, nor to
    callers behind a proxy that runs here."""
    host = call.once.get(b"host", b"")
    if not _names_loopback(host):
        return problem(403, detail="unknown Host", field="Host")
    origin = call.once.get(b"origin")
    if origin is not None and origin != call.scope["scheme"].encode() + b"://" + host:
        return problem(403, detail="requests from other origins are refused", field="Origin")
    if call.proxied is not None:
        return problem(
            403,
            detail="without API tokens no request is served through a proxy",
            field=call.proxied.decode("ascii"),
        )
    return None


@functools.lru_cache(maxsize=256)
def _names_loopback(host: bytes) -> bool:
    found = _HOST.fullmatch(host)
    return found is not None and is_loopback(found["name"].decode("ascii").lower())

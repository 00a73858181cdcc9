"""Who may call: holders of an API token, or without one the programs of this machine."""

from __future__ import annotations

import functools
import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable

from homing.domain.errors import SettingsError
from homing.domain.loopback import is_loopback
from homing.engine.tokens import RIGHTS, Right, Token, Tokens
from homing.settings.tree import ServerSettings
from homing.web.answers import Answer
from homing.web.calls import Call
from homing.web.problems import problem

# How long a lookup is cached: a revoked token works, and the first token is not asked for, for
# at most this long.
TRUST_S = 2.0
MAX_TRUSTED = 1024
_BEARER = re.compile(rb"bearer +(?P<secret>[!-~]{1,512})", re.IGNORECASE)
_HOST = re.compile(rb"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,255})(?::[0-9]{1,5})?")


async def check_access(server: ServerSettings, tokens: Tokens) -> None:
    """Refuse a start that would let in everyone, or no one."""
    local = is_loopback(server.host)
    if server.auth == "open" and not local:
        raise SettingsError(
            "server.auth", f"open is for loopback, and server.host is {server.host}"
        )
    if (local and server.auth != "token") or await tokens.any():
        return
    setting, missing = "server.host", f"{server.host} is not loopback and there are no API tokens"
    if local:
        setting, missing = "server.auth", "there are no API tokens"
    raise SettingsError(setting, f"{missing}; make one first: homing token make NAME --role admin")


class Gate:
    """Lets a call through to what needs a right, or says why not."""

    def __init__(
        self, tokens: Tokens, server: ServerSettings, *, steady_s: Callable[[], float]
    ) -> None:
        self._tokens = tokens
        self._steady_s = steady_s
        self._open = server.auth == "open" or (server.auth is None and is_loopback(server.host))
        self._closes_with_a_token = server.auth is None
        self._look_at_s = float("-inf")
        self._trusted: OrderedDict[bytes, tuple[float, Token]] = OrderedDict()

    async def is_open(self) -> bool:
        """Whether calls need no token.

        Without a setting, the first token closes it. It then stays closed until the next start:
        revoking the only token, perhaps a stolen one, must not open it to everyone.
        """
        now_s = self._steady_s()
        if self._open and self._closes_with_a_token and now_s >= self._look_at_s:
            self._look_at_s = now_s + TRUST_S
            self._open = not await self._tokens.any()
        return self._open

    async def refusal(self, call: Call, right: Right) -> Answer | None:
        if await self.is_open():
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
            detail="without API tokens no request is served through a proxy;"
            " make one: homing token make NAME --role sender",
            field=call.proxied.decode("ascii"),
        )
    return None


@functools.lru_cache(maxsize=256)
def _names_loopback(host: bytes) -> bool:
    found = _HOST.fullmatch(host)
    return found is not None and is_loopback(found["name"].decode("ascii").lower())

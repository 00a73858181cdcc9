"""Who may call: holders of an API token, people who have signed in or whom a proxy names, or
without any of these the programs of this machine."""

from __future__ import annotations

import asyncio
import functools
import getpass
import hashlib
import hmac
import logging
import re
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Protocol, get_args

from homing.domain.errors import SettingsError, StoreLocked
from homing.domain.loopback import is_loopback
from homing.engine.access.tokens import PREFIX, RIGHTS, Right, Role
from homing.runtime.app import Homing
from homing.settings.tree import ServerSettings
from homing.web.access import cookies
from homing.web.access.login_limits import LoginLimits
from homing.web.access.origins import SAFE, Origins, is_plain_loopback, refused_when_open
from homing.web.access.sessions import Sessions
from homing.web.http.answers import Answer
from homing.web.http.callers import Caller
from homing.web.http.calls import Call
from homing.web.http.problems import BadRequest, problem

log = logging.getLogger("homing.web")

# How long a lookup is cached: a revoked token works, and the first token is not asked for, for
# at most this long.
TRUST_S = 2.0
MAX_TRUSTED = 1024
MAX_NAME_BYTES = 200
# Each takes 32 MB of memory and a core for a quarter of a second.
PASSWORDS_AT_ONCE = 2
CSRF_HEADER = b"x-csrf-token"
# What a known secret was given as: that of a token means nothing as a session, nor one that was
# only seen as one that was used.
TOKEN, USED, SEEN = b"token:", b"used:", b"seen:"
_BEARER = re.compile(rb"bearer +(?P<secret>[!-~]{1,512})", re.IGNORECASE)


async def check_access(server: ServerSettings, homing: Homing) -> None:
    """Refuse a start that would let in everyone, or no one."""
    local = is_loopback(server.host)
    if server.auth == "open" and not local:
        raise SettingsError(
            "server.auth", f"open is for loopback, and server.host is {server.host}"
        )
    if server.auth == "proxy" or (local and server.auth in (None, "open")):
        return
    if server.auth != "token" and await homing.users.any():
        return
    if server.auth != "session" and await homing.tokens.any():
        return
    make, what = "homing token create NAME --role admin", "API tokens"
    if server.auth == "session":
        make, what = "homing user create NAME --role admin", "users"
    setting, missing = "server.host", f"{server.host} is not loopback and there are no {what}"
    if local:
        setting, missing = "server.auth", f"there are no {what}"
    raise SettingsError(setting, f"{missing}; make one first: {make}")


class AccessCheck:
    """Lets a call through to what needs a right, or says why not. Signs people in and out."""

    def __init__(
        self, homing: Homing, server: ServerSettings, *, steady_s: Callable[[], float]
    ) -> None:
        self._homing = homing
        self._tokens = homing.tokens
        self._users = homing.users
        # The clock of the store may run faster; these times are real ones.
        scale = homing.time_scale
        self._sessions = Sessions(
            self._users,
            idle_s=server.session_idle.value * scale,
            max_s=server.session_max.value * scale,
        )
        self._server = server
        self._steady_s = steady_s
        self._origins = Origins(server)
        self._limits = LoginLimits(steady_s)
        self._passwords = asyncio.Semaphore(PASSWORDS_AT_ONCE)
        self._open = server.auth == "open" or (server.auth is None and is_loopback(server.host))
        self._look_at_s = float("-inf")
        self._trusted: OrderedDict[bytes, tuple[float, Caller]] = OrderedDict()
        self._local = Caller(name=_local_user(), role="admin", kind="local")
        self._still_lets_in = {
            right: functools.partial(self._is_still_let_in, right) for right in get_args(Right)
        }

    @property
    def has_sessions(self) -> bool:
        """Whether people sign in here."""
        return self._server.auth in (None, "session")

    async def is_open(self) -> bool:
        """Whether calls need no token.

        Without a setting, the first token or user closes it. It then stays closed until the next
        start: revoking the only token, perhaps a stolen one, must not open it to everyone.
        """
        if self._must_look():
            await self._look()
        return self._open

    def _must_look(self) -> bool:
        may_close = self._open and self._server.auth is None
        return may_close and self._steady_s() >= self._look_at_s

    async def _look(self) -> None:
        now_s = self._steady_s()
        has_looked = self._look_at_s > float("-inf")
        if has_looked:
            # Meanwhile other calls rely on the last look. Before the first one, each looks.
            self._look_at_s = now_s + TRUST_S
        try:
            if await self._tokens.any() or await self._users.any():
                self._open = False
        except StoreLocked:
            if not has_looked:
                raise
            # No token is made while the store is locked. The next call looks again.
            self._look_at_s = now_s
        else:
            self._look_at_s = now_s + TRUST_S

    async def refusal(self, call: Call, right: Right, *, form: bool = False) -> Answer | None:
        """Why the call may not have what needs this right; None: it may, and has its caller.

        The CSRF token of a `form` is in its body, where `checked_form` demands it.
        """
        if self._must_look():
            await self._look()
        # A request for another host, or of a page of another site, is refused in every mode.
        refused = refused_when_open(call) if self._open else self._origins.refusal(call)
        if refused is not None:
            return refused
        caller = self._local if self._open else await self._known(call, is_use=True)
        if caller is None:
            return self._unknown()
        if not caller.may(right):
            may = " and ".join(role for role, rights in RIGHTS.items() if right in rights)
            return problem(403, detail=f"role {caller.role} may not {right}; {may} may")
        if caller.csrf_token is not None and not form and call.scope.get("method") not in SAFE:
            given = call.header(CSRF_HEADER) or b""
            if not is_csrf_token(caller, given):
                return problem(
                    403, detail="the CSRF token is missing or wrong", field="X-CSRF-Token"
                )
        call.caller = caller
        call.let_in_by = self._still_lets_in[right]
        return None

    async def _is_still_let_in(self, right: Right, call: Call) -> bool:
        caller = await self.caller(call, is_use=False)
        return caller is not None and caller.may(right)

    async def caller(self, call: Call, *, is_use: bool = True) -> Caller | None:
        """Who calls, if that can be known. A use keeps a session from ending."""
        if await self.is_open():
            return self._local
        return await self._known(call, is_use=is_use)

    async def _known(self, call: Call, *, is_use: bool) -> Caller | None:
        bearer = _BEARER.fullmatch(call.once.get(b"authorization", b""))
        by_proxy = self._server.auth == "proxy"
        # A proxy may pass on what it was given itself; only our own tokens say who calls.
        if bearer is not None and not (by_proxy and not bearer["secret"].startswith(_PREFIX)):
            return await self._by_token(bearer["secret"])
        if by_proxy:
            return await self._by_proxy(call)
        secret = cookies.secret_in(call, cookies.SESSION) if self.has_sessions else None
        if secret is None:
            return None
        return await self._by_session(secret, is_use=is_use and not _is_by_script(call))

    async def sign_in(self, call: Call, name: str, password: str) -> tuple[Caller, cookies.Header]:
        """A new session: its person, and the header that sets its cookie. BadRequest: refused."""
        await self._demand_sign_in(call)
        client = self._origins.client(call)
        wait_s = self._limits.retry_after_s(client)
        if wait_s is not None:
            raise BadRequest(f"too many failed sign-ins; wait {wait_s} s", status=429)
        succeeded = self._limits.begin(client)
        async with self._passwords:
            user = await self._users.check(name, password)
        if user is None:
            log.warning("sign_in_failed client=%s", client)
            raise BadRequest("wrong name or password", status=401)
        succeeded()
        # What this browser had before is over: a session that was planted in it cannot be used on.
        await self._end(call)
        secret = await self._sessions.begin(user)
        log.info("signed_in user=%s client=%s", user.name, client)
        caller = self._person(user.name, user.role, secret)
        by_https = self._origins.came_by_https(call)
        return caller, cookies.setting(call, cookies.SESSION, secret, by_https=by_https)

    async def sign_out(self, call: Call, *, everywhere: bool = False) -> cookies.Header:
        """End this session, or all of its person; the header removes the cookie."""
        if everywhere and call.caller is not None and call.caller.kind == "person":
            name = call.caller.name
            await self._users.sign_out(name)
            self._trusted.clear()
            await self._homing.ops.note_access(
                "sign out", f"user:{name}", actor=name, reason="signed out everywhere"
            )
        await self._end(call)
        return cookies.clearing(call, cookies.SESSION)

    def browser_cookie(self, call: Call) -> cookies.Header | None:
        """In proxy mode a page sets this cookie where it is missing: without it there is no CSRF
        token, and so no change."""
        if self._server.auth != "proxy" or cookies.secret_in(call, cookies.BROWSER) is not None:
            return None
        secret = secrets.token_hex(32)
        by_https = self._origins.has_https
        return cookies.setting(call, cookies.BROWSER, secret, by_https=by_https)

    async def _demand_sign_in(self, call: Call) -> None:
        if not self.has_sessions or await self.is_open():
            raise BadRequest("sign-in is disabled", status=409)
        if self._origins.refusal(call) is not None:
            raise BadRequest("requests from other origins are refused", "Origin", 403)
        if not is_plain_loopback(call) and not self._origins.is_encrypted(call):
            raise BadRequest(
                "sign in over HTTPS: passwords must not be sent unencrypted", None, 403
            )

    async def _end(self, call: Call) -> None:
        secret = cookies.secret_in(call, cookies.SESSION)
        if secret is not None:
            for kind in (USED, SEEN):
                self._trusted.pop(_digest(kind, secret.encode()), None)
            await self._sessions.end(secret)

    async def _by_token(self, secret: bytes) -> Caller | None:
        async def look() -> Caller | None:
            token = await self._tokens.check(secret.decode("ascii"))
            if token is None:
                return None
            await self._tokens.note_use(token)
            sees = self._sees(token.role)
            return Caller(name=token.name, role=token.role, kind="token", sees_personal_data=sees)

        return await self._trusting(TOKEN, secret, look)

    async def _by_session(self, secret: str, *, is_use: bool) -> Caller | None:
        async def look() -> Caller | None:
            user = await self._sessions.find(secret, is_use=is_use)
            return None if user is None else self._person(user.name, user.role, secret)

        return await self._trusting(USED if is_use else SEEN, secret.encode(), look)

    async def _by_proxy(self, call: Call) -> Caller | None:
        header = (self._server.proxy_header or "").lower().encode()
        given = call.headers(header)
        if len(given) != 1 or not self._origins.is_proxy(call):
            return None
        name = given[0].decode("utf-8", "replace")
        if not 0 < len(given[0]) <= MAX_NAME_BYTES or not name.isprintable():
            return None
        user = await self._users.get(name)
        role = self._server.proxy_role if user is None else user.role
        if role is None:
            return None
        secret = cookies.secret_in(call, cookies.BROWSER)
        return self._person(name, role, secret)

    def _person(self, name: str, role: Role, secret: str | None) -> Caller:
        # Without a secret there is a token that nothing can match.
        token = "" if secret is None else cookies.csrf_token(secret)
        sees = self._sees(role)
        return Caller(
            name=name, role=role, kind="person", sees_personal_data=sees, csrf_token=token
        )

    def _sees(self, role: Role) -> bool:
        return role in self._server.personal_data_roles

    async def _trusting(
        self, kind: bytes, secret: bytes, look: Callable[[], Awaitable[Caller | None]]
    ) -> Caller | None:
        # Always by its hash, known or not: the same work, and no comparison of the secret itself.
        digest = _digest(kind, secret)
        until_s, caller = self._trusted.get(digest, (0.0, None))
        if caller is not None and self._steady_s() < until_s:
            return caller
        caller = await look()
        if caller is None:
            self._trusted.pop(digest, None)
            return None
        self._trusted[digest] = (self._steady_s() + TRUST_S, caller)
        while len(self._trusted) > MAX_TRUSTED:
            self._trusted.popitem(last=False)
        return caller

    def _unknown(self) -> Answer:
        if self.has_sessions:
            return problem(401, detail="sign in, or send a valid API token", field="Authorization")
        return problem(401, detail="a valid API token is required", field="Authorization")


class PeopleAccessCheck:
    """As `AccessCheck`, for people alone: a token is refused."""

    def __init__(self, access_check: AccessCheck) -> None:
        self._access_check = access_check

    async def refusal(self, call: Call, right: Right, *, form: bool = False) -> Answer | None:
        refused = await self._access_check.refusal(call, right, form=form)
        if refused is None and call.caller is not None and call.caller.kind == "token":
            return problem(403, detail="only people may do this: sign in")
        return refused


class OpenAccess:
    """Allows every caller that reaches the port: for a network that is trusted."""

    async def refusal(self, call: Call, right: Right, *, form: bool = False) -> Answer | None:
        del call, right, form
        return None


class AnyAccessCheck(Protocol):
    """What stands before an endpoint."""

    async def refusal(self, call: Call, right: Right, *, form: bool = False) -> Answer | None: ...


def is_csrf_token(caller: Caller, given: bytes) -> bool:
    """Whether the token is that of the caller; a caller without one needs none."""
    expected = caller.csrf_token
    if expected is None:
        return True
    return expected != "" and hmac.compare_digest(given, expected.encode())


def _digest(kind: bytes, secret: bytes) -> bytes:
    return hashlib.sha256(kind + secret).digest()


def _is_by_script(call: Call) -> bool:
    """A page that is open reads itself again: that is not a sign of the person before it."""
    by_script = call.once.get(b"sec-fetch-dest") == b"empty"
    return by_script and call.scope["method"] in SAFE


def _local_user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have no name for its user
        return "local"


_PREFIX = PREFIX.encode()

"""Who may use the admin routes: a password, a session cookie, and guards against other sites.

Sessions live in the memory of the process: a restart ends them.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

from fastapi import Depends, HTTPException, Request
from fastapi.responses import Response

from homing.domain.loopback import is_loopback
from homing.web.access.login_limits import LoginLimits

COOKIE = "bookings_session"
FORM_TOKEN = "form_token"  # noqa: S105 - the name of a field
SESSION_S = 12 * 3600.0
MAX_SESSIONS = 100
MAX_BODY_BYTES = 16_384
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
NO_PASSWORD = "BOOKINGS_ADMIN_PASSWORD is not set: there is no admin access"  # noqa: S105 - a message


class Sessions:
    """The sessions of one application. `steady_s` is a clock that never goes back."""

    def __init__(self, password: str | None, steady_s: Callable[[], float]) -> None:
        self._password = None if password is None else _digest(password)
        self._steady_s = steady_s
        self._until_s: dict[bytes, float] = {}
        self._limits = LoginLimits(steady_s)

    @property
    def are_possible(self) -> bool:
        return self._password is not None

    def retry_after_s(self, client: str) -> int | None:
        """How long this client must wait before the next try; None: not at all."""
        return self._limits.retry_after_s(client)

    def log_in(self, password: str, client: str) -> str | None:
        """The token of a new session, or None."""
        succeeded = self._limits.begin(client)
        if self._password is None or not hmac.compare_digest(_digest(password), self._password):
            return None
        succeeded()
        while len(self._until_s) >= MAX_SESSIONS:
            del self._until_s[next(iter(self._until_s))]
        token = secrets.token_urlsafe(32)
        self._until_s[_digest(token)] = self._steady_s() + SESSION_S
        return token

    def log_out(self, token: str) -> None:
        self._until_s.pop(_digest(token), None)

    def is_open(self, token: str) -> bool:
        return self._until_s.get(_digest(token), 0.0) > self._steady_s()


def sessions_of(request: Request) -> Sessions:
    found: Sessions = request.app.state.sessions
    return found


def is_admin(request: Request) -> bool:
    """For pages, which show a login form instead of an error."""
    return sessions_of(request).is_open(request.cookies.get(COOKIE, ""))


def require_admin(request: Request) -> None:
    """A dependency: 503 without a password, 401 without a session, 403 from another site."""
    check_possible(request)
    if not is_admin(request):
        raise HTTPException(401, "log in first")
    check_origin(request)


def check_possible(request: Request) -> None:
    if not sessions_of(request).are_possible:
        raise HTTPException(503, NO_PASSWORD)


def check_origin(request: Request) -> None:
    """A change must come from a page of ours; programs other than browsers send no Origin."""
    if request.method in SAFE:
        return
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    own = origin is None or urlsplit(origin).netloc == request.headers.get("host")
    if not own or site not in ("same-origin", "none"):
        raise HTTPException(403, "this request came from a page of another site")


def require_json(request: Request) -> None:
    """A dependency: 415 for a body that is not JSON, 413 for one that is too large."""
    check_size(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    has_body = request.headers.get("content-length", "0") != "0"
    if request.method not in SAFE and (kind or has_body) and kind != "application/json":
        raise HTTPException(415, "send application/json")


def check_size(request: Request) -> None:
    length = request.headers.get("content-length", "0")
    chunked = "transfer-encoding" in request.headers
    if chunked or not length.isdigit() or int(length) > MAX_BODY_BYTES:
        raise HTTPException(413, f"send at most {MAX_BODY_BYTES} bytes, with a Content-Length")


def log_in(request: Request, response: Response, password: str) -> bool:
    """Open a session and set its cookie; 429 after too many failures."""
    check_possible(request)
    check_origin(request)
    sessions = sessions_of(request)
    client = request.client.host if request.client else ""
    wait_s = sessions.retry_after_s(client)
    if wait_s is not None:
        raise HTTPException(429, "too many failed logins", {"Retry-After": str(wait_s)})
    token = sessions.log_in(password, client)
    if token is None:
        return False
    response.set_cookie(
        COOKIE,
        token,
        max_age=int(SESSION_S),
        httponly=True,
        samesite="strict",
        secure=not _is_plain_loopback(request),
    )
    return True


def log_out(request: Request, response: Response) -> None:
    sessions_of(request).log_out(request.cookies.get(COOKIE, ""))
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")


def form_token(request: Request) -> str:
    """For a hidden field named `form_token`; it belongs to the session."""
    session = request.cookies.get(COOKIE, "")
    return hmac.new(session.encode(), b"form", hashlib.sha256).hexdigest()


async def checked_form(request: Request) -> dict[str, str]:
    """The fields of a form of ours; 403 if its token is not that of the session."""
    check_size(request)
    check_origin(request)
    body = (await request.body()).decode("utf-8", "replace")
    fields = dict(parse_qsl(body, keep_blank_values=True, max_num_fields=20))
    given = fields.pop(FORM_TOKEN, "")
    if not hmac.compare_digest(given.encode(), form_token(request).encode()):
        raise HTTPException(403, "the form is out of date: load the page again")
    return fields


def _is_plain_loopback(request: Request) -> bool:
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    return request.url.scheme == "http" and is_loopback(host)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


Admin = Annotated[None, Depends(require_admin)]

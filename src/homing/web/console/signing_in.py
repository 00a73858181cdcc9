"""Signing in and out, and what stands before every page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from urllib.parse import quote

from starlette.responses import Response

from homing.engine.access.tokens import Right
from homing.web.access.auth import AccessCheck
from homing.web.access.cookies import Header
from homing.web.console.rendering import Rendering
from homing.web.console.visits import Page, Visit
from homing.web.http.answers import Answer
from homing.web.http.calls import Call
from homing.web.http.problems import BadRequest

# A page of the console to go on to; nothing that leads elsewhere.
_PLACE = re.compile(r"[a-z0-9][A-Za-z0-9/_-]*(\?[^\\#]*)?")
FIELDS = frozenset({"next"})


class PageAccessCheck:
    """As `AccessCheck`. People who have to sign in are led there, and refusals are pages."""

    def __init__(
        self,
        access_check: AccessCheck,
        rendering: Rendering,
        path: str,
        visit_of: Callable[[Call], Visit],
    ) -> None:
        self._access_check = access_check
        self._rendering = rendering
        self._path = path
        self._visit_of = visit_of

    async def refusal(self, call: Call, right: Right, *, form: bool = False) -> Answer | None:
        refused = await self._access_check.refusal(call, right, form=form)
        if refused is None:
            return None
        visit = self._visit_of(call)
        is_page = call.scope["method"] == "GET"
        if refused.status_code == 401 and self._access_check.has_sessions and is_page:
            # Behind the prefix under which the console is served.
            wanted = "/".join(call.scope["path"].split("/")[-self._path.count("/") :])
            if query := call.scope["query_string"].decode("ascii", "replace"):
                wanted += f"?{query}"
            refused.extra.append(
                (b"refresh", f"0; url={visit.root}sign-in?next={quote(wanted)}".encode())
            )
        return self._rendering.refusal(visit, refused)


class SigningIn:
    def __init__(self, access_check: AccessCheck, rendering: Rendering) -> None:
        self._access_check = access_check
        self._rendering = rendering

    def pages(self) -> Iterable[Page]:
        return (
            Page("GET", "/sign-in", "public", self.show),
            Page("POST", "/sign-in", "public", self.sign_in),
            Page("POST", "/sign-out", "read", self.sign_out),
        )

    async def show(self, visit: Visit) -> Response:
        """Browsers send no strict cookie with a link from another site, so that its follower is
        led here although they are signed in."""
        wanted = visit.query(FIELDS).get("next", "")
        if (
            self._access_check.has_sessions
            and await self._access_check.caller(visit.call) is not None
        ):
            return Answer(b"", 303, b"text/plain", (_location(visit, wanted),))
        return self._page(visit, wanted)

    def _page(self, visit: Visit, wanted: str, problem: str = "", status: int = 200) -> Response:
        return self._rendering.page(
            visit, "sign_in.html", status=status, place=None, wanted=wanted, problem=problem
        )

    async def sign_in(self, visit: Visit) -> Response:
        form = await visit.form(4096)
        wanted = form.get("next")
        try:
            _, cookie = await self._access_check.sign_in(
                visit.call, form.get("name"), form.get("password")
            )
        except BadRequest as error:
            return self._page(visit, wanted, error.detail, error.status)
        return Answer(b"", 303, b"text/plain", (_location(visit, wanted), cookie))

    async def sign_out(self, visit: Visit) -> Response:
        form = await visit.form(4096)
        cookie = await self._access_check.sign_out(
            visit.call, everywhere=bool(form.get("everywhere"))
        )
        location = (b"location", f"{visit.root}sign-in".encode())
        return Answer(b"", 303, b"text/plain", (location, cookie))


def _location(visit: Visit, wanted: str) -> Header:
    place = wanted if _PLACE.fullmatch(wanted) else ""
    return (b"location", quote(visit.root + place, safe="./?=&%-_").encode())

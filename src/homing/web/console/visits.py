"""One request for a page: where it stands, what was asked, and what a form has sent."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import quote, urlencode

from msgspec import Struct
from starlette.responses import Response

from homing.engine.access.tokens import Right
from homing.engine.ops.caller import CallerBulk, CallerOperations
from homing.runtime.app import Homing
from homing.web.access.auth import is_csrf_token
from homing.web.access.forms import CSRF_FIELD, is_form
from homing.web.access.seen import bulk_for, ops_for
from homing.web.http.answers import Answer
from homing.web.http.bodies import Bodies
from homing.web.http.callers import Caller
from homing.web.http.calls import Call, parsed, query_of
from homing.web.http.problems import BadRequest

MAX_FORM_BYTES = 2_000_000
# More than a page of rows can be chosen with.
MAX_FORM_FIELDS = 500


class Visit:
    """`root` leads from the page to the console's first one, so that all links are relative:
    they hold under any prefix, also one that a proxy removes."""

    def __init__(self, call: Call, path: str, bodies: Bodies, homing: Homing) -> None:
        self.call = call
        self._homing = homing
        self.root = "../" * (path.count("/") - 1) or "./"
        self._bodies = bodies

    def query(self, known: frozenset[str] | None = None) -> dict[str, str]:
        """The fields of the query that are not empty."""
        return {name: value for name, value in query_of(self.call.scope, known).items() if value}

    def param(self, name: str) -> str:
        return str(self.call.path_params[name])

    @property
    def caller(self) -> Caller | None:
        """Who was let in; None on the page where people sign in."""
        return self.call.caller

    @property
    def person(self) -> str:
        return self.call.let_in.name

    def may(self, right: Right) -> bool:
        return self.caller is not None and self.caller.may(right)

    @functools.cached_property
    def ops(self) -> CallerOperations:
        """The operations, as the visitor may see their results."""
        return ops_for(self.caller, self._homing)

    @property
    def bulk(self) -> CallerBulk:
        return bulk_for(self.caller, self._homing)

    @property
    def sees_personal_data(self) -> bool:
        return self.ops.sees_personal_data

    def text(self, said: str) -> str:
        """What a server has said, as the visitor may see it."""
        return self.ops.text(said)

    def paused_because(self, route: str) -> str:
        """Why a route is paused."""
        fact = self.ops.paused(route)
        value = (None if fact is None else fact.value) or {}
        return str(value.get("reason") or value.get("error_class") or "no reason given")

    @property
    def csrf_token(self) -> str:
        """What every form of this page carries."""
        return (self.caller.csrf_token if self.caller is not None else None) or ""

    async def form(self, limit_bytes: int = MAX_FORM_BYTES) -> Form:
        self._check_origin()
        if not is_form(self.call):
            raise BadRequest("send a form", "Content-Type", 415)
        body = await self._bodies.read_any(self.call, limit_bytes)
        form = Form(parsed(body, "form", MAX_FORM_FIELDS))
        if self.caller is not None and not is_csrf_token(
            self.caller, form.get(CSRF_FIELD).encode()
        ):
            raise BadRequest("the form is out of date: load the page again", CSRF_FIELD, 403)
        return form

    def _check_origin(self) -> None:
        """A browser names the origin of every form, so one without a name is not the console's.
        The access check has refused foreign ones."""
        if b"origin" not in self.call.once:
            raise BadRequest("forms are taken from the pages of the console alone", "Origin", 400)

    def link(self, *parts: str, **query: Any) -> str:
        """A link to a page of the console; what is None is left out of the query."""
        path = self.root + "/".join(quote(part, safe="") for part in parts)
        given = {name: value for name, value in query.items() if value not in (None, "")}
        return f"{path}?{urlencode(given, doseq=True)}" if given else path

    def see(self, *parts: str, **query: Any) -> Answer:
        """After a form has been sent: look at this page."""
        location = self.link(*parts, **query).encode("ascii")
        return Answer(b"", 303, b"text/plain", ((b"location", location),))


class Form:
    """The fields of a form. A browser ends its lines with CR LF."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = [(name, value.replace("\r\n", "\n")) for name, value in pairs]

    def get(self, name: str, default: str = "") -> str:
        return next((value for each, value in self._pairs if each == name), default)

    def every(self, name: str) -> list[str]:
        return [value for each, value in self._pairs if each == name]

    def given(self) -> Mapping[str, str]:
        """The fields that are not blank; of several of one name the last."""
        return {name: value for name, value in self._pairs if value.strip()}


Handler: TypeAlias = Callable[[Visit], Awaitable[Response]]


class Page(Struct, frozen=True):
    """One method of one path of the console, and the right that it needs."""

    method: str
    path: str
    right: Right | Literal["public"]
    handle: Handler

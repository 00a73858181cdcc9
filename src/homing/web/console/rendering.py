"""Pages from templates: everything is escaped, nothing is inline, and no other host is asked."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import Struct

from homing.engine.access.tokens import Right
from homing.runtime.app import Homing
from homing.web.access.auth import AccessCheck
from homing.web.console import words
from homing.web.console.local_mail import local_routes
from homing.web.console.visits import Visit
from homing.web.http.answers import CSS, HTML, Answer, RawHeaders
from homing.web.http.problems import Problem

STATIC = Path(__file__).parent / "static"
POLICY = (
    b"content-security-policy",
    (
        b"default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self';"
        b" connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none';"
        b" frame-ancestors 'none'"
    ),
)
# With `no-referrer` a browser would name no origin for the console's own forms.
REFERRER = (b"referrer-policy", b"same-origin")
KINDS = {".css": CSS, ".js": b"text/javascript; charset=utf-8", ".svg": b"image/svg+xml"}


class Place(Struct, frozen=True):
    """An entry of the navigation."""

    name: str
    path: str
    right: Right = "read"


PLACES = (
    Place("Home", ""),
    Place("Deliveries", "deliveries"),
    Place("Failures", "failures"),
    Place("Routes", "routes"),
    Place("Outbox", "outbox"),
    Place("Workers", "workers"),
    Place("Audit", "audit"),
    Place("Access", "access", "administer"),
    Place("Settings", "settings", "administer"),
    Place("Doctor", "doctor", "administer"),
)


class Rendering:
    def __init__(self, homing: Homing, access_check: AccessCheck) -> None:
        self._homing = homing
        self._access_check = access_check
        self._templates = Environment(
            loader=PackageLoader("homing.web.console"),
            autoescape=True,
            # An upgrade on the disk must not mix new templates with the code that runs.
            auto_reload=False,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals.update(words.GLOBALS)
        self._templates.filters.update(words.FILTERS)

    def page(
        self,
        visit: Visit,
        template: str,
        *,
        status: int = 200,
        headers: RawHeaders | None = None,
        **values: Any,
    ) -> Answer:
        clock = self._homing.engine.clock
        text = self._templates.get_template(template).render(
            visit=visit,
            root=visit.root,
            link=visit.link,
            now_ms=clock.now_ms(),
            places=self._places(visit),
            may_act=visit.may("operate"),
            can_sign_out=self._access_check.has_sessions and bool(visit.csrf_token),
            version=self.version,
            has_outbox=self._has_outbox,
            **values,
        )
        # In proxy mode this is what the forms of the next page are checked by.
        cookie = None if visit.caller is None else self._access_check.browser_cookie(visit.call)
        extra = [POLICY, REFERRER, *(headers or ()), *(() if cookie is None else (cookie,))]
        return Answer(text.encode(), status, HTML, extra)

    def refusal(self, visit: Visit, answer: Answer) -> Answer:
        """An answer of REST that refuses, as a page."""
        problem = msgspec.json.decode(answer.body, type=Problem)
        return self.page(
            visit,
            "problem.html",
            status=answer.status_code,
            headers=answer.extra,
            place=None,
            problem=problem,
        )

    @cached_property
    def _has_outbox(self) -> bool:
        return bool(local_routes(self._homing))

    def _places(self, visit: Visit) -> list[Place]:
        if visit.caller is None:
            return []
        return [
            place
            for place in PLACES
            if visit.may(place.right) and (place.path != "outbox" or self._has_outbox)
        ]

    @cached_property
    def version(self) -> str:
        """Names the state of the static files, so that browsers may keep them."""
        digest = hashlib.sha256()
        for path in sorted(STATIC.iterdir()):
            digest.update(path.read_bytes())
        return digest.hexdigest()[:12]

    def static(self, name: str) -> Answer:
        path = STATIC / name
        keep = (b"cache-control", b"public, max-age=31536000, immutable")
        return Answer(path.read_bytes(), 200, KINDS[path.suffix], (keep,))

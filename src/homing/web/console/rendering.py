"""Pages from templates: everything is escaped, nothing is inline, and no other host is asked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import Struct

from homing.app import Homing
from homing.web.answers import CSS, HTML, Answer, RawHeaders
from homing.web.console import words
from homing.web.console.visits import Visit

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


PLACES = (
    Place("Home", ""),
    Place("Deliveries", "deliveries"),
    Place("Failures", "failures"),
    Place("Routes", "routes"),
    Place("Outbox", "outbox"),
    Place("Workers", "workers"),
    Place("Audit", "audit"),
    Place("Access", "access"),
    Place("Settings", "settings"),
    Place("Doctor", "doctor"),
)


class Rendering:
    def __init__(self, homing: Homing, hidden: Iterable[str] = ()) -> None:
        self._homing = homing
        self._hidden = frozenset(hidden)
        self._templates = Environment(
            loader=PackageLoader("homing.web.console"),
            autoescape=True,
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
            places=[place for place in PLACES if place.path not in self._hidden],
            version=self.version,
            **values,
        )
        return Answer(text.encode(), status, HTML, (POLICY, REFERRER, *(headers or ())))

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

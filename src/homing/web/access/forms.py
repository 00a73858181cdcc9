"""Forms of our own pages: their fields, taken only with the CSRF token of the person."""

from __future__ import annotations

from homing.web.access.auth import is_csrf_token
from homing.web.http.bodies import Bodies
from homing.web.http.calls import Call, parsed
from homing.web.http.problems import BadRequest

FORM = b"application/x-www-form-urlencoded"
CSRF_FIELD = "csrf_token"
MAX_FIELDS = 200


def is_form(call: Call) -> bool:
    return call.once.get(b"content-type", b"").partition(b";")[0].strip().lower() == FORM


async def read_form(call: Call, bodies: Bodies, limit_bytes: int) -> dict[str, str]:
    """The fields of a form that was posted. BadRequest: it is none, or not of our own page."""
    if not is_form(call):
        raise BadRequest("send a form", "Content-Type", 415)
    return checked_form(call, await bodies.read_any(call, limit_bytes))


def checked_form(call: Call, body: bytes) -> dict[str, str]:
    pairs = parsed(body, "form", MAX_FIELDS)
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise BadRequest("has a field twice", "body")
    given = fields.pop(CSRF_FIELD, "").encode()
    if call.caller is not None and not is_csrf_token(call.caller, given):
        raise BadRequest("the form is out of date: load the page again", CSRF_FIELD, 403)
    return fields

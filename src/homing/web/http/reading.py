"""Reading single values out of a request: numbers, keys, cursors; each refusal names its field."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

from homing.ports import Cursor
from homing.web.http.calls import Call
from homing.web.http.problems import BadRequest

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
MAX_KEY_CHARS = 512
MAX_MS = 2**53
KEY = "Idempotency-Key"
_CURSOR = re.compile(r"[A-Za-z0-9_-]{1,1000}")
_DIGITS = re.compile(r"[0-9]{1,16}")
# As in a body: JSON's 1.0 is a whole number.
_WHOLE = re.compile(r"(?P<digits>[0-9]{1,16})(?:\.0+)?")


def idempotency_key(call: Call) -> str:
    given = call.once.get(b"idempotency-key")
    if given is None:
        raise BadRequest("is required", KEY)
    try:
        return checked_key(given.decode("utf-8"), KEY, 400)
    except UnicodeDecodeError:
        raise BadRequest("is not text in UTF-8", KEY) from None


def checked_key(key: str, field: str, status: int = 422) -> str:
    """A key is compared letter by letter, so invisible characters are refused."""
    if not 0 < len(key) <= MAX_KEY_CHARS:
        raise BadRequest(f"must have 1 to {MAX_KEY_CHARS} characters", field, status)
    if not key.isprintable() or key[0] == " " or key[-1] == " ":
        raise BadRequest("must be printable and neither begin nor end blank", field, status)
    return key


def whole_number(
    query: Mapping[str, str], name: str, *, least: int = 0, most: int = MAX_MS
) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    found = _WHOLE.fullmatch(text)
    if found is None or not least <= int(found["digits"]) <= most:
        raise BadRequest(f"must be a whole number from {least} to {most}", name)
    return int(found["digits"])


def limit_of(query: Mapping[str, str]) -> int:
    return whole_number(query, "limit", least=1, most=MAX_LIMIT) or DEFAULT_LIMIT


def cursor_of(query: Mapping[str, str]) -> Cursor | None:
    text = query.get("cursor")
    return None if text is None else decode_cursor(text)


def encode_cursor(cursor: Cursor | None) -> str | None:
    """Opaque to callers: base64url of `created_at_ms:delivery_id`, with a `+` where the newer ones
    are asked for."""
    if cursor is None:
        return None
    raw = f"{'+' if cursor.newer else ''}{cursor.created_at_ms}:{cursor.delivery_id}".encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_cursor(text: str) -> Cursor:
    """Strictly: only what `encode_cursor` makes is accepted."""
    if _CURSOR.fullmatch(text):
        try:
            raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError):
            raw = ""
        below = raw.removeprefix("+")
        created, _, delivery_id = below.partition(":")
        if _DIGITS.fullmatch(created) and int(created) <= MAX_MS and delivery_id:
            cursor = Cursor(int(created), delivery_id, newer=raw != below)
            if encode_cursor(cursor) == text:
                return cursor
    raise BadRequest("is not a cursor; use one of an earlier answer", "cursor")

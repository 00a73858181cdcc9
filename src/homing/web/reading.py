"""Reading requests: size first, then JSON, then the type; each refusal names what is wrong."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from homing.ports import Cursor
from homing.web.problems import BadRequest

T = TypeVar("T")

MAX_JSON_DEPTH = 32
DEFAULT_LIMIT = 50
MAX_LIMIT = 200
MAX_KEY_CHARS = 512
_PLACE = re.compile(r"(.*) - at `(?:key in )?\$?\.?([^`]*)`$")


async def read_body(request: Request, limit_bytes: int) -> bytes:
    """The whole body, never more than the limit in memory."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise BadRequest("send application/json", "Content-Type", 415)
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit_bytes:
        raise BadRequest(f"the body is larger than {limit_bytes:,} bytes", "body", 413)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit_bytes:
            raise BadRequest(f"the body is larger than {limit_bytes:,} bytes", "body", 413)
        chunks.append(chunk)
    return b"".join(chunks)


def parse(body: bytes, kind: type[T]) -> T:
    """Strict JSON into its type: unknown fields, repeated names, NaN and deep nests are refused."""
    _check_json(body)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        field, problem = _named(str(error))
        raise BadRequest(problem, field, 422) from None
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body is no valid JSON: {error}", "body") from None


def _check_json(body: bytes) -> None:
    # msgspec keeps the last of two equal names in silence; a caller who sends both is mistaken.
    if body.count(b"{") + body.count(b"[") > MAX_JSON_DEPTH:
        _check_depth(body)
    try:
        json.loads(body, object_pairs_hook=_once, parse_constant=_no_constant, parse_int=_small)
    except RecursionError:
        raise BadRequest("the body is nested too deep", "body") from None
    except (ValueError, UnicodeDecodeError):
        raise BadRequest("the body is no valid JSON", "body") from None


def _check_depth(body: bytes) -> None:
    depth = 0
    quoted = escaped = False
    for byte in body:
        if quoted:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                quoted = False
        elif byte == 0x22:
            quoted = True
        elif byte in b"{[":
            depth += 1
            if depth > MAX_JSON_DEPTH:
                raise BadRequest(f"the body is nested deeper than {MAX_JSON_DEPTH}", "body")
        elif byte in b"}]":
            depth -= 1


def _once(pairs: list[tuple[str, Any]]) -> None:
    seen = {name for name, _ in pairs}
    if len(seen) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadRequest("is given twice", twice[:100])


def _no_constant(text: str) -> None:
    raise BadRequest(f"{text} is no JSON number", "body")


def _small(text: str) -> None:
    if len(text) > 17 or abs(int(text)) > 2**53:
        raise BadRequest("a whole number is beyond 2^53", "body", 422)


def _named(message: str) -> tuple[str, str]:
    unknown = re.match(r"Object contains unknown field `([^`]*)`", message)
    missing = re.match(r"Object missing required field `([^`]*)`", message)
    found = _PLACE.match(message)
    problem, place = (found.group(1), found.group(2)) if found else (message, "")
    if unknown or missing:
        name = (unknown or missing).group(1)  # type: ignore[union-attr] # one of them matched
        place = f"{place}.{name}" if place else name
        problem = "there is no such field" if unknown else "is missing"
    return place or "body", problem


def idempotency_key(request: Request) -> str:
    given = request.headers.getlist("idempotency-key")
    if len(given) != 1 or not given[0].strip():
        raise BadRequest("one Idempotency-Key header is required", "Idempotency-Key")
    key = given[0].strip()
    if len(key) > MAX_KEY_CHARS or not key.isprintable():
        raise BadRequest(f"must be at most {MAX_KEY_CHARS} printable characters", "Idempotency-Key")
    return key


def known_only(request: Request, names: frozenset[str]) -> None:
    """An unknown filter is refused: ignoring it would answer another question."""
    for name, _ in request.query_params.multi_items():
        if name not in names:
            raise BadRequest("there is no such filter", name[:100])
        if len(request.query_params.getlist(name)) > 1:
            raise BadRequest("is given twice", name)


def whole_number(request: Request, name: str, *, least: int = 0, most: int = 2**53) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,16}", text) or not least <= int(text) <= most:
        raise BadRequest(f"must be a whole number from {least} to {most}", name)
    return int(text)


def limit_of(request: Request) -> int:
    return whole_number(request, "limit", least=1, most=MAX_LIMIT) or DEFAULT_LIMIT


def cursor_of(request: Request) -> Cursor | None:
    text = request.query_params.get("cursor")
    return None if text is None else decode_cursor(text)


def encode_cursor(cursor: Cursor | None) -> str | None:
    """Opaque to callers: base64url of `created_at_ms:delivery_id`."""
    if cursor is None:
        return None
    raw = f"{cursor.created_at_ms}:{cursor.delivery_id}".encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_cursor(text: str) -> Cursor:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,1000}", text):
        raise BadRequest("is not a cursor of ours", "cursor")
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise BadRequest("is not a cursor of ours", "cursor") from None
    created, colon, delivery_id = raw.partition(":")
    if not (colon and delivery_id and re.fullmatch(r"[0-9]{1,16}", created)):
        raise BadRequest("is not a cursor of ours", "cursor")
    return Cursor(int(created), delivery_id)

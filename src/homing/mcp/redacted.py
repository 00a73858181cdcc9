"""What an agent may see of a record: no addresses, no secrets, and a limited length."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from homing.domain.delivery import Content
from homing.domain.message import decode_message
from homing.domain.redaction import redact

MAX_TEXT_CHARS = 500
MAX_ITEMS = 50
MAX_DEPTH = 12
MAX_PAYLOAD_BYTES = 20_000
# Redacting takes about 2 µs a byte, and the event loop waits for it.
MAX_READ_BYTES = 100_000
HIDDEN = "[redacted]"

_SECRET_NAME = re.compile(
    r"passw|passphrase|secret|token|credential|authori[sz]ation|cookie|(?:api|private|access)_?key",
    re.IGNORECASE,
)
# Names of records, which an agent has to repeat in its next call. They have this form.
_NAMES_A_RECORD = frozenset({"event_id", "parent_id", "clone_of", "next_cursor"})
_RECORD_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def redacted(value: Any, name: str = "", depth: int = 0) -> Any:
    """The same value without addresses and secrets; long texts and lists are cut."""
    if isinstance(value, dict | list | tuple):
        return "…" if depth >= MAX_DEPTH else _inside(value, name, depth + 1)
    if value is None or isinstance(value, bool):
        return value
    if _SECRET_NAME.search(name):
        return HIDDEN
    return _text(value, name) if isinstance(value, str) else value


def _inside(value: dict[Any, Any] | list[Any] | tuple[Any, ...], name: str, depth: int) -> Any:
    left_out = f"{len(value)} in all"
    if isinstance(value, dict):
        some = list(value.items())[:MAX_ITEMS]
        shown = {redact(str(key), 100): redacted(each, str(key), depth) for key, each in some}
        return shown if len(value) <= MAX_ITEMS else {**shown, "…": left_out}
    items = [redacted(each, name, depth) for each in value[:MAX_ITEMS]]
    return items if len(value) <= MAX_ITEMS else [*items, f"… {left_out}"]


def _text(value: str, name: str) -> str:
    if name in _NAMES_A_RECORD and _RECORD_NAME.fullmatch(value):
        return value
    return redact(value, MAX_TEXT_CHARS)


def payload_of(content: Content | None) -> Any:
    """What was to be delivered."""
    if content is None or not content.payload:
        return None
    too_long = f"too long to show: {len(content.payload)} bytes"
    if len(content.payload) > MAX_READ_BYTES:
        return too_long
    try:
        shown = msgspec.to_builtins(decode_message(content.payload))
    except Exception:  # a route may store what it likes
        shown = {"bytes": len(content.payload)}
    shown = redacted(shown)
    if len(msgspec.json.encode(shown)) > MAX_PAYLOAD_BYTES:
        return too_long
    return shown

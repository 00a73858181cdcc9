"""Which characters are allowed: in a line of a header, in a name, in a body."""

from __future__ import annotations

import re

from homing.domain.errors import InvalidRequest

# Every control character, not only CR and LF: parsers differ in what ends a line for them
# (VT, FF, FS, GS, RS, NEL, U+2028, U+2029 do for some). A lone surrogate has no encoding.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# They make a name or file name read differently from what it is.
_DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# The marks among them (U+061C, U+200E, U+200F) are part of ordinary Arabic and Hebrew names: they
# move the punctuation beside them and cannot turn letters round.
_REORDERING = re.compile("[\u202a-\u202e\u2066-\u2069]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def require_text(value: object, field: str) -> str:
    """A caller of the library may pass any object; a message is made of text."""
    if not isinstance(value, str):
        raise InvalidRequest(field, f"must be text, not {type(value).__name__}")
    return value


def check_line(text: str, field: str) -> None:
    """Refuse what could end the line; it is never removed silently."""
    if text.isascii() and text.isprintable():
        return
    found = _CONTROL.search(text)
    if found is not None:
        raise InvalidRequest(field, f"holds the control character {_point(found.group())}")


def check_label(text: str, field: str) -> None:
    """As `check_line`, and for what people read: no change of direction either."""
    _check_direction(text, field, _DIRECTION)


def check_name(text: str, field: str) -> None:
    """As `check_label`, for a person's name: direction marks are allowed."""
    _check_direction(text, field, _REORDERING)


def check_body(text: str, field: str) -> None:
    """Refuse NUL, which stores and mail servers cut or refuse, and what has no encoding."""
    if "\0" in text:
        raise InvalidRequest(field, f"holds the control character {_point(chr(0))}")
    if not text.isascii() and _SURROGATE.search(text):
        raise InvalidRequest(field, "holds a lone surrogate, which is not a character")


def _check_direction(text: str, field: str, refused: re.Pattern[str]) -> None:
    if text.isascii() and text.isprintable():
        return
    check_line(text, field)
    found = refused.search(text)
    if found is not None:
        raise InvalidRequest(field, f"holds the direction character {_point(found.group())}")


def _point(character: str) -> str:
    return f"U+{ord(character):04X}"

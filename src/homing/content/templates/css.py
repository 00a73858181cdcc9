"""Variables in CSS: where they may stand, and how their characters are escaped there."""

from __future__ import annotations

import re

# A place in CSS is the stack of what is open: a property's name or its value first, then
# parentheses, strings, comments and escapes. A short text, so that places can be compared.
NAME = "n"
VALUE = "v"
_FILLED = "f"  # a value that holds a variable
SELECTOR = "s"  # the same, when a brace shows that it was no value
_AFTER = {":": VALUE, ";": NAME, "{": NAME, "}": NAME}
_AFTER_FILLED = {";": NAME, "{": SELECTOR, "}": NAME}
_STRINGS = "\"'"
_SLASH, _COMMENT, _STAR, _ESCAPE = "/", "*", "x", "\\"

_PLAIN = re.compile(r"[A-Za-z0-9 #%.,_+-]*")
_TO_ESCAPE = re.compile(r"[^A-Za-z0-9 #%.,_+-]")
_COLOUR = re.compile(r"(?:rgb|hsl)a?\([0-9 %.,/+-]*\)")


def takes_variable(place: str) -> bool:
    """In the value of a property, or in a string of it; in no function, least of all `url()`."""
    return place[0] in (VALUE, _FILLED) and place[1:] in ("", *_STRINGS)


def after_variable(place: str) -> str:
    return _FILLED + place[1:]


def escape(text: str) -> str:
    """Text that stays one value: what could end or extend it becomes an escape such as `\\3b `."""
    if _PLAIN.fullmatch(text) or _COLOUR.fullmatch(text):
        return text
    return _TO_ESCAPE.sub(lambda found: f"\\{ord(found.group()):x} ", text)


def read(place: str, c: str) -> str:
    """The place after one more character."""
    top, below = place[-1], place[:-1]
    if top == _ESCAPE:
        return below
    if top in (_SLASH, _COMMENT, _STAR):
        return _read_comment(place, c)
    if top in _STRINGS:
        return place + _ESCAPE if c == _ESCAPE else below if c == top else place
    if c in (_ESCAPE, _SLASH, "(", *_STRINGS):
        return place + c
    if top == "(":
        return below if c == ")" else place
    return (_AFTER_FILLED if top == _FILLED else _AFTER).get(c, place)


def _read_comment(place: str, c: str) -> str:
    top, below = place[-1], place[:-1]
    if top == _SLASH:
        return below + _COMMENT if c == "*" else read(below, c)
    if top == _COMMENT:
        return place + _STAR if c == "*" else place
    return below[:-1] if c == "/" else place if c == "*" else below

"""Variables in links: which part of a link they are, and how their characters are escaped there."""

from __future__ import annotations

import re
from html import unescape
from typing import Literal, TypeAlias
from urllib.parse import quote

# Stands in a link for what is not known before it is rendered.
UNKNOWN = "{}"

Part: TypeAlias = Literal["whole", "host", "behind_host", "path", "query", "scheme"]

_SAFE_SCHEMES = frozenset(("http", "https", "mailto", "tel", "sms", "cid"))
_UNSAFE_LINK = "#unsafe-link"
_IGNORED = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029]")
# Browsers take \ for / and need no // after http: and https:.
_UP_TO_HOST = re.compile(r"(?:https?:[/\\]*|[/\\]{2,})([^/\\?#]*)", re.IGNORECASE)
_EXTENDED_BEGINNING = re.compile(rf"\s*{re.escape(UNKNOWN)}\s*[^\s/?#]")


class PercentEncoded(str):
    """What the filter `urlencode` made: it is not encoded a second time."""

    __slots__ = ()


def is_safe(link: str) -> bool:
    """Whether a link goes where a mail's link may go; a link without a scheme does."""
    scheme, colon, _ = _IGNORED.sub("", link).partition(":")
    return not colon or any(c in scheme for c in "/?#") or scheme.lower() in _SAFE_SCHEMES


def part_after(beginning: str) -> Part:
    """What a variable after this beginning, as it is written in HTML, is part of."""
    if not beginning.strip():
        return "whole"
    link = _IGNORED.sub("", unescape(beginning))
    if host := _UP_TO_HOST.fullmatch(link):
        return "behind_host" if host[1] else "host"
    # With an empty variable, /{}/ would begin a host.
    if link.startswith(("/", "\\")) and _UP_TO_HOST.fullmatch(link.replace(UNKNOWN, "")):
        return "behind_host"
    if not is_safe(link):
        return "scheme"
    if "?" in link or "#" in link:
        return "query"
    return "path" if "/" in link or ":" in link else "scheme"


def extends_variable(link: str) -> bool:
    """Whether a link begins with a variable and goes on so that both could make a scheme."""
    return _EXTENDED_BEGINNING.match(link) is not None


def whole(text: str) -> str:
    return text if is_safe(text) else _UNSAFE_LINK


def host(text: str) -> str:
    return _percent_encode(text, ":[]")


def path(text: str) -> str:
    """Keeps `/`, unless the path would begin anew: `/` and `/evil.example` make another host."""
    leaves = text.startswith("/") or ".." in text.split("/")
    return _percent_encode(text, "@:+" if leaves else "@:+/")


def query(text: str) -> str:
    return _percent_encode(text, "")


def _percent_encode(text: str, kept: str) -> str:
    if isinstance(text, PercentEncoded):
        return text if "/" in kept else text.replace("/", "%2F")
    return quote(text, safe=kept)

"""Language tags (BCP 47) in their canonical spelling: `en-us` is `en-US`."""

from __future__ import annotations

import re

from homing.content.characters import require_text
from homing.domain.errors import InvalidRequest

DEFAULT_LOCALE = "en"
MAX_LOCALE_CHARS = 35

_TAG = re.compile(
    r"(?P<language>[a-z]{2,3}(?:-[a-z]{3}){0,3})"
    r"(?:-(?P<script>[a-z]{4}))?"
    r"(?:-(?P<region>[a-z]{2}|[0-9]{3}))?"
    r"(?P<rest>(?:-(?:[a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*"
    r"(?:-[0-9a-wyz](?:-[a-z0-9]{2,8})+)*"
    r"(?:-x(?:-[a-z0-9]{1,8})+)?)"
)


def canonical_locale(text: str, field: str = "locale") -> str:
    """The canonical tag; an underscore, as many systems write it, becomes a hyphen."""
    tag = require_text(text, field).strip(" ").replace("_", "-").lower()
    match = _TAG.fullmatch(tag) if tag.isascii() and len(tag) <= MAX_LOCALE_CHARS else None
    if match is None:
        raise InvalidRequest(field, "is not a language tag such as en or pt-BR")
    parts = [match["language"]]
    if match["script"]:
        parts.append(match["script"].title())
    if match["region"]:
        parts.append(match["region"].upper())
    return "-".join(parts) + match["rest"]

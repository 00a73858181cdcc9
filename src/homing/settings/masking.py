"""Settings as they may be shown: no user, password, token or DSN."""

from __future__ import annotations

import re
from typing import Any

SECRETS = frozenset({"telemetry.sentry_dsn"})
# An address, which looks like a login with its @.
PLAIN = frozenset({"sender"})
HIDDEN = "***"
_HOST = re.compile(r"(?:[\w.-]*|\[[0-9A-Fa-f:.]*\])(?::[0-9]*)?(?:/[^@]*)?")
# An @ in an option is part of an address, unless the ? before it belongs to a password.
_OPTION = re.compile(r"[\w-]+=[^@]*|sender=[^@/:]+@[\w.-]+")
_SECRET_OPTION = re.compile(r"(?i)pass|pwd|secret|token|key|user|sig|auth")


def shown(name: str, value: Any) -> str:
    """A setting's value for a terminal or a report."""
    if value is None:
        return "-"
    if name in SECRETS:
        return HIDDEN
    if isinstance(value, bool):
        return str(value).lower()
    if name in PLAIN:
        return str(value)
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return masked(value) if isinstance(value, str) else str(value)


def masked(url: str) -> str:
    """A URL with only what is certainly not secret: scheme, host, port, path, harmless options."""
    scheme, colon, rest = url.partition(":")
    if not colon:
        return HIDDEN if "@" in url else url
    place, mark, query = rest.partition("?")
    options = query.split("&") if mark else []
    if not all(_OPTION.fullmatch(option) for option in options):
        place, options = rest, []
    slashes = "//" if place.startswith("//") else ""
    _, at, host = place.removeprefix("//").rpartition("@")
    if not _HOST.fullmatch(host):
        return f"{scheme}:{slashes}{HIDDEN}"
    login = f"{HIDDEN}@" if at else ""
    shown_options = "&".join(map(_masked_option, options))
    return f"{scheme}:{slashes}{login}{host}{'?' if options else ''}{shown_options}"


def _masked_option(option: str) -> str:
    name, _, value = option.partition("=")
    return f"{name}={HIDDEN if _SECRET_OPTION.search(name) else value}"

"""The URL of a store: what only Homing knows, and what is handed to the server's own library."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from msgspec import Struct
from psycopg import conninfo

from homing.domain.errors import SettingsError

_EXAMPLE = "postgresql://user:secret@db.example.org:5432/shop"
# The words of the parsers could hold the password.
_UNREADABLE = f"the PostgreSQL URL cannot be read; write one such as {_EXAMPLE}"
_DEFAULT_PORT = "5432"


class StoreUrl(Struct, frozen=True):
    """`shown` is the database in messages: without user and password."""

    url: str
    shown: str
    allows_weak_durability: bool


def parse_url(url: str) -> StoreUrl:
    """Raises SettingsError that names what is wrong and shows no secret."""
    try:
        parts = urlsplit(url.strip())
        # A plus sign is itself here, as it is to PostgreSQL.
        options = parse_qsl(parts.query.replace("+", "%2B"), keep_blank_values=True)
        theirs = [(name, value) for name, value in options if name != "durability"]
        plain = urlunsplit(parts._replace(query=urlencode(theirs, quote_via=quote)))
        given = conninfo.conninfo_to_dict(plain)
    except (ValueError, psycopg.Error):
        raise SettingsError("store", _UNREADABLE) from None
    hosts, ports = str(given.get("host") or "localhost"), str(given.get("port") or _DEFAULT_PORT)
    for port in ports.split(","):
        if port and not (port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
            raise SettingsError("store", f"the port {port!r} is not a number from 1 to 65535")
    return StoreUrl(
        plain,
        f"postgresql://{hosts}:{ports}/{given.get('dbname') or ''}",
        _allows_weak([value for name, value in options if name == "durability"]),
    )


def _allows_weak(values: list[str]) -> bool:
    if any(value != "weak" for value in values):
        raise SettingsError("store", "durability in the URL can only be weak; else leave it out")
    return bool(values)

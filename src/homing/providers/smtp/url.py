"""`smtp://` and `smtps://` URLs into settings. Unknown, unsafe or invalid options are refused."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable
from typing import Any, Literal, TypeAlias
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from msgspec import Struct

from homing.domain.errors import SettingsError
from homing.domain.loopback import is_loopback
from homing.providers.smtp.wire import address_problem, is_host

Tls: TypeAlias = Literal["starttls", "implicit", "none"]

_DEFAULT_PORTS: dict[Tls, int] = {"starttls": 587, "implicit": 465, "none": 25}
_MODES: dict[str, frozenset[str]] = {
    "smtp": frozenset({"starttls", "none"}),
    "smtps": frozenset({"implicit"}),
}
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f]")


class Credentials(Struct, frozen=True):
    """Never shown, not even in a traceback."""

    user: str
    password: str

    def __repr__(self) -> str:
        return "Credentials([hidden])"


class SmtpSettings(Struct, frozen=True, kw_only=True):
    """Where and how to send.

    Timeouts are those of RFC 5321, 4.5.3.2, or longer: for the connection; for each answer, the
    greeting included; for content of which nothing leaves; for the answer to the whole message.
    """

    host: str
    port: int
    tls: Tls = "starttls"
    verify: bool = True
    ca_file: str | None = None
    credentials: Credentials | None = None
    helo: str | None = None
    sender: str | None = None
    pool_size: int = 8
    messages_per_connection: int = 1000
    idle_timeout_s: float = 30.0
    connect_timeout_s: float = 30.0
    command_timeout_s: float = 300.0
    data_timeout_s: float = 300.0
    dot_timeout_s: float = 600.0
    warnings: tuple[str, ...] = ()


def parse_url(url: str) -> SmtpSettings:
    """Settings from a URL; raises SettingsError that names what is wrong and shows no secret."""
    if _UNPRINTABLE.search(url):
        raise SettingsError("provider", "the SMTP URL holds spaces or control characters")
    try:
        parts = urlsplit(url)
    except ValueError:
        # Its own words could hold the password.
        raise SettingsError("provider", "the SMTP URL cannot be read") from None
    if parts.scheme not in _MODES:
        raise SettingsError("provider", "the URL must begin with smtp:// or smtps://")
    if parts.fragment or parts.path not in ("", "/"):
        raise SettingsError(
            "provider", "the SMTP URL has no path; write / ? # @ : in a password as %2F and so on"
        )
    options = _options(parts.query)
    host, tls = _host(parts), _tls(parts.scheme, options)
    if tls == "none" and not is_loopback(host):
        raise SettingsError("tls", "'none' is only for a loopback host")
    credentials, warnings = _login(parts)
    verify: bool = options.get("verify", True)
    if not verify:
        warnings += ("verify=off: the mail server's certificate is not checked",)
    port = _port(parts) or _DEFAULT_PORTS[tls]
    return SmtpSettings(
        **(options | {"host": host, "port": port, "tls": tls}),
        credentials=credentials,
        warnings=warnings,
    )


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    try:
        known = bool(ipaddress.ip_address(host))
    except ValueError:
        known = is_host(host)
    if not known:
        raise SettingsError("provider", f"{host!r} is not a host name; write it in ASCII")
    return host


def _port(parts: SplitResult) -> int | None:
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise SettingsError("provider", "the port must be a number from 1 to 65535")
    return port


def _tls(scheme: str, options: dict[str, Any]) -> Tls:
    default: Tls = "implicit" if scheme == "smtps" else "starttls"
    tls: Tls = options.pop("tls", default)
    if tls not in _MODES[scheme]:
        allowed = " or ".join(repr(mode) for mode in sorted(_MODES[scheme], reverse=True))
        raise SettingsError("tls", f"{tls!r} does not fit {scheme}://, which takes {allowed}")
    return tls


def _login(parts: SplitResult) -> tuple[Credentials | None, tuple[str, ...]]:
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if "\0" in user + password:
        raise SettingsError("provider", "user and password cannot hold a NUL")
    if user and password:
        return Credentials(user, password), ()
    if user or password:
        return None, ("user and password are not both set: no login is made",)
    return None, ()


def _options(query: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in OPTIONS:
            known = ", ".join(sorted(OPTIONS))
            raise SettingsError(name, f"unknown option of an SMTP URL; known are {known}")
        field, read = OPTIONS[name]
        if field in options:
            raise SettingsError(name, "given twice")
        options[field] = read(name, value)
    return options


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 3600:
        raise SettingsError(name, "must be a number of seconds, above 0 and at most 3600")
    return seconds


def _count(highest: int) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        if not (value.isascii() and value.isdigit() and 1 <= int(value[:9]) <= highest):
            raise SettingsError(name, f"must be a whole number from 1 to {highest}")
        return int(value)

    return read


def _word(*allowed: str) -> Callable[[str, str], str]:
    def read(name: str, value: str) -> str:
        if value not in allowed:
            raise SettingsError(name, f"must be one of {', '.join(allowed)}")
        return value

    return read


def _switch(name: str, value: str) -> bool:
    return _word("on", "off")(name, value) == "on"


def _path(name: str, value: str) -> str:
    if not value:
        raise SettingsError(name, "must be the path of a PEM file")
    return value


def _helo(name: str, value: str) -> str:
    if not is_host(value):
        raise SettingsError(name, "must be a host name or an address literal such as [192.0.2.1]")
    return value


def _sender(name: str, value: str) -> str:
    if (problem := address_problem(value)) is not None:
        raise SettingsError(name, problem)
    return value


# The options of an SMTP URL: its name there, its name here, and how it is read.
OPTIONS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "tls": ("tls", _word("starttls", "none", "implicit")),
    "verify": ("verify", _switch),
    "ca_file": ("ca_file", _path),
    "helo": ("helo", _helo),
    "sender": ("sender", _sender),
    "pool": ("pool_size", _count(256)),
    "messages_per_connection": ("messages_per_connection", _count(1_000_000)),
    "idle_timeout_s": ("idle_timeout_s", _seconds),
    "connect_timeout_s": ("connect_timeout_s", _seconds),
    "command_timeout_s": ("command_timeout_s", _seconds),
    "data_timeout_s": ("data_timeout_s", _seconds),
    "dot_timeout_s": ("dot_timeout_s", _seconds),
}

"""`smtp://` and `smtps://` URLs into settings. Unknown, unsafe or invalid options are refused."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from homing.domain.errors import SettingsError
from homing.domain.known_secrets import mask_secret
from homing.domain.loopback import is_loopback
from homing.providers.smtp.credentials import Credentials, credentials_of
from homing.providers.smtp.options import OPTIONS
from homing.providers.smtp.token import TokenSource
from homing.providers.smtp.wire import is_host

Tls: TypeAlias = Literal["starttls", "implicit", "none"]

_DEFAULT_PORTS: dict[Tls, int] = {"starttls": 587, "implicit": 465, "none": 25}
_MODES: dict[str, frozenset[str]] = {
    "smtp": frozenset({"starttls", "none"}),
    "smtps": frozenset({"implicit"}),
}
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f]")
_PLACE = re.compile(r"(\[[^\[\]]*\]|[^\[\]]*)(:[^\[\]]*)?")
_UNREADABLE = "the host of the SMTP URL cannot be read; write a name or an address such as [::1]"
_WRITE_IT_ENCODED = "the SMTP URL has no path; write / ? # @ : in a password as %2F and so on"


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
    client_cert: str | None = None
    client_key: str | None = None
    # The one host that is not this machine and may be spoken to without TLS.
    plaintext_host: str | None = None
    auth: str | None = None
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


def parse_url(url: str, *, token: TokenSource | None = None) -> SmtpSettings:
    """Settings from a URL; raises SettingsError that names what is wrong and shows no secret.

    `token` is asked for an access token at every login, as the user that the URL names.
    """
    if _UNPRINTABLE.search(url):
        raise SettingsError("provider", "the SMTP URL holds spaces or control characters")
    try:
        parts = urlsplit(url)
    except ValueError:
        # Its own words could hold the password.
        raise SettingsError("provider", _UNREADABLE) from None
    if parts.scheme not in _MODES:
        raise SettingsError("provider", "the URL must begin with smtp:// or smtps://")
    if parts.fragment or parts.path not in ("", "/"):
        raise SettingsError("provider", _WRITE_IT_ENCODED)
    options = _options(parts.query)
    host, tls = _host(parts), _tls(parts.scheme, options)
    credentials = _credentials(parts, options, token)
    _check_certificate(tls, options)
    if tls == "none" and not is_loopback(host):
        _check_plaintext(host, options, credentials)
    elif "plaintext_host" in options:
        raise SettingsError("plaintext_host", "has no effect but with tls=none to another machine")
    port = _port(parts) or _DEFAULT_PORTS[tls]
    settings = SmtpSettings(
        **(options | {"host": host, "port": port, "tls": tls}), credentials=credentials
    )
    return replace(settings, warnings=tuple(_warnings(parts, settings)))


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    if not _PLACE.fullmatch(parts.netloc.rpartition("@")[2]):
        raise SettingsError("provider", _UNREADABLE)  # the name is not all of it
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


def _credentials(
    parts: SplitResult, options: dict[str, Any], source: TokenSource | None
) -> Credentials | None:
    """None where no login is made."""
    mask_secret(parts.password or "")
    token = options.pop("token", source)
    if source is not None and token is not source:
        raise SettingsError("token", "is given beside a function; give one of them")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return credentials_of(user, password, token, options.get("auth"))


def _check_certificate(tls: Tls, options: dict[str, Any]) -> None:
    certificate = options.get("client_cert")
    if certificate is None and "client_key" in options:
        raise SettingsError("client_key", "has no effect without client_cert")
    if certificate is not None and tls == "none":
        raise SettingsError("client_cert", "has no effect without TLS")
    if certificate is None and options.get("auth") == "EXTERNAL":
        raise SettingsError("auth", "EXTERNAL needs client_cert")


def _check_plaintext(host: str, options: dict[str, Any], credentials: Credentials | None) -> None:
    """By consent that names the host: a copy of the URL for another host does not carry it."""
    if options.get("plaintext_host") != host:
        raise SettingsError(
            "tls",
            "'none' is only for loopback; for a development host that keeps its mail to itself"
            f" write plaintext_host={host} as well",
        )
    if credentials is not None:
        raise SettingsError("tls", "'none' would send the password in the clear; leave it out")


def _warnings(parts: SplitResult, settings: SmtpSettings) -> Iterator[str]:
    if settings.credentials is None and (parts.username or parts.password):
        yield "user and password are not both set: no login is made"
    if not settings.verify:
        yield "verify=off: the mail server's certificate is not checked"
    if settings.plaintext_host is not None:
        yield f"tls=none: mail to {settings.host} is sent in the clear"


def _options(query: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if any("@" in option and not option.startswith("sender=") for option in query.split("&")):
        # A ? in the password has cut the URL: its end must not be shown as an unknown option.
        raise SettingsError("provider", _WRITE_IT_ENCODED)
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in OPTIONS:
            known = ", ".join(sorted(OPTIONS))
            raise SettingsError(name, f"unknown option of an SMTP URL; known are {known}")
        field, read = OPTIONS[name]
        if field in options:
            raise SettingsError(name, "given twice")
        options[field] = read(name, value)
    return options

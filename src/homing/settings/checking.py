"""Refuses settings that contradict each other or would have no effect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_network
from urllib.parse import urlsplit

from homing.content.addresses import parse
from homing.domain.errors import InvalidRequest, SettingsError
from homing.domain.loopback import is_loopback
from homing.settings.tree import (
    RetrySettings,
    RouteSettings,
    ServerSettings,
    Settings,
    TelemetrySettings,
)

_ORIGIN = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", re.IGNORECASE
)
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
# Sessions are removed from the store a day later.
LONGEST_SESSION_S = 30 * 86_400.0


def check(settings: Settings) -> None:
    """Raise SettingsError for the first setting that is not valid."""
    problems = [
        *_server(settings.server),
        *_telemetry(settings.telemetry),
        *_dkim(settings),
        *(
            problem
            for name, route in settings.routes.items()
            for problem in _route(f"routes.{name}", route)
        ),
    ]
    for setting, problem in problems:
        raise SettingsError(setting, problem)


def _server(given: ServerSettings) -> Iterator[tuple[str, str]]:
    pair = {"server.tls_cert": given.tls_cert, "server.tls_key": given.tls_key}
    for name, path in pair.items():
        if path is None and any(pair.values()):
            yield name, f"is missing; HTTPS needs {' and '.join(pair)}"
        if path is not None and path.startswith("-----BEGIN"):
            yield name, "takes the path of a PEM file, not its content"
    yield from _proxy(given)
    if given.public_url is not None:
        yield from _url(given.public_url)
    for name in ("session_idle", "session_max"):
        if not 0 < getattr(given, name).value <= LONGEST_SESSION_S:
            yield f"server.{name}", "must be longer than nothing and at most 30d"


def _proxy(given: ServerSettings) -> Iterator[tuple[str, str]]:
    needed = {
        name: getattr(given, name) for name in ("proxy_header", "trusted_proxies", "public_url")
    }
    if given.auth == "proxy":
        for name in [name for name, value in needed.items() if not value]:
            yield f"server.{name}", "is missing; server.auth is proxy"
    for name in ("proxy_header", "proxy_role"):
        if given.auth != "proxy" and getattr(given, name) is not None:
            yield f"server.{name}", "is unused: server.auth is not proxy"
    if given.proxy_header is not None and not _HEADER.fullmatch(given.proxy_header):
        yield "server.proxy_header", "must be the name of a header such as X-Forwarded-User"
    for address in given.trusted_proxies:
        try:
            ip_network(address)
        except ValueError:
            yield (
                "server.trusted_proxies",
                f"{address!r} is not an address or network such as 10.0.0.0/8",
            )


def _url(url: str) -> Iterator[tuple[str, str]]:
    found = _ORIGIN.fullmatch(url)
    if found is None:
        yield "server.public_url", "must be a scheme and a host, such as https://mail.example.org"
    elif found["scheme"] == "http" and not is_loopback(found["host"]):
        yield "server.public_url", "must begin with https://: cookies are not sent in plain text"


def _telemetry(given: TelemetrySettings) -> Iterator[tuple[str, str]]:
    if given.otlp_endpoint is None:
        return
    if given.otlp == "none":
        yield "telemetry.otlp_endpoint", "is unused: telemetry.otlp is none; set it to http or grpc"
    if not _is_http_url(given.otlp_endpoint):
        yield "telemetry.otlp_endpoint", "must be a URL that begins with http:// or https://"


def _is_http_url(url: str) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https")
    except ValueError:  # a host that cannot be read
        return False


def _dkim(given: Settings) -> Iterator[tuple[str, str]]:
    """A key that no mail can be signed with is a mistake in a name."""
    domains = [_domain(sender) for sender in (given.sender or "", *given.allowed_senders)]
    for name in given.dkim:
        if not any(domain == name or domain.endswith(f".{name}") for domain in domains):
            yield f"dkim.{name}", "is unused: neither sender nor allowed_senders are in this domain"


def _domain(sender: str) -> str:
    try:
        return parse(f"all{sender}" if sender.startswith("@") else sender).domain
    except InvalidRequest:
        return ""  # it is refused by its own name where the route is made


def _route(name: str, given: RouteSettings) -> Iterator[tuple[str, str]]:
    if given.timeout is not None and given.timeout.value <= 0:
        yield f"{name}.timeout", "must be longer than nothing"
    if given.retry is not None:
        yield from _retry(f"{name}.retry", given.retry)


def _retry(name: str, given: RetrySettings) -> Iterator[tuple[str, str]]:
    if given.ladder is not None and given.exponential is not None:
        yield name, "give either ladder or exponential, not both"
    if given.ladder == ():
        yield f"{name}.ladder", "has no steps"
    growing = given.exponential
    if (
        growing is not None
        and growing.max is not None
        and growing.max.value < growing.initial.value
    ):
        yield f"{name}.exponential.max", "is shorter than the first wait"
    low, high = given.retry_after_min, given.retry_after_max
    if low is not None and high is not None and high.value < low.value:
        yield f"{name}.retry_after_max", "is shorter than retry_after_min"

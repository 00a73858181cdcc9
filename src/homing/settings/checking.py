"""Settings that contradict each other or would have no effect stop the start, by name."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from homing.content.addresses import parse
from homing.domain.errors import InvalidRequest, SettingsError
from homing.settings.tree import (
    RetrySettings,
    RouteSettings,
    ServerSettings,
    Settings,
    TelemetrySettings,
)


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
    domains = [_domain(sender) for sender in (given.sender or "", *given.senders)]
    for name in given.dkim:
        if not any(domain == name or domain.endswith(f".{name}") for domain in domains):
            yield f"dkim.{name}", "is unused: neither sender nor senders are in this domain"


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
    low, high = given.after_min, given.after_cap
    if low is not None and high is not None and high.value < low.value:
        yield f"{name}.after_cap", "is shorter than after_min"

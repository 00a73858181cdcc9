"""All settings, with their defaults and descriptions: the reference is generated from this."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

from homing.content.limits import DEFAULT
from homing.domain.policy import OnRouteFault, OnUnknown
from homing.engine.access.users import PersonRole
from homing.settings.durations import Seconds


def says(about: str) -> Meta:
    """What a setting does, for the reference."""
    return Meta(description=about)


Text: TypeAlias = str | None
Time: TypeAlias = Seconds | None


class ExponentialSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Waits that grow by a factor."""

    initial: Annotated[Seconds, says("The first wait.")] = Seconds(1.0)
    multiplier: Annotated[
        float,
        Meta(
            ge=1.0, le=1000.0, description="Each wait is this many times as long as the one before."
        ),
    ] = 2.0
    max: Annotated[Time, says("No wait is longer; by default they grow without limit.")] = None


class RetrySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """When a failed attempt is tried again: by a ladder or by growing waits."""

    ladder: Annotated[
        tuple[Seconds, ...] | None,
        says("The waits before the second attempt, the third, …; the last one repeats."),
    ] = None
    exponential: ExponentialSettings | None = None
    jitter: Annotated[
        bool | None,
        says("Draw each wait at random between zero and its full length (full jitter)."),
    ] = None
    after_min: Annotated[
        Time, says("After a rate limit wait at least this long, whatever the provider asks for.")
    ] = None
    after_cap: Annotated[
        Time, says("Obey a provider's Retry-After up to this; by default however long it is.")
    ] = None


class RetentionSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How long each class of record is kept after its end; by default as the route defines it."""

    delivered: Annotated[Time, says("Delivered and suppressed ones.")] = None
    dismissed: Annotated[Time, says("Closed dead letters and cancelled deliveries.")] = None
    failed: Annotated[Time, says("Open dead letters.")] = None
    payload: Annotated[Time, says("What was sent: the content of those that ended.")] = None
    failed_payload: Annotated[Time, says("The content of open dead letters.")] = None
    attempts: Annotated[Time, says("The ledger of attempts.")] = None
    key: Annotated[
        Time, says("Idempotency keys, from the end of their delivery; then the key is free again.")
    ] = None
    dead_letter: Annotated[
        Time, says("Dead letters that an assembly keeps as separate records.")
    ] = None


class RouteSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Overrides for one route; by default the route's own values apply."""

    retry: RetrySettings | None = None
    max_attempts: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=1000,
                description="After this many counted attempts it becomes a dead letter.",
            ),
        ]
        | None
    ) = None
    on_unknown: Annotated[
        OnUnknown | None,
        says(
            "What happens when it is unknown whether an attempt was accepted: `retry` sends the"
            " message again, flagged as a possible duplicate; `hold` makes it a dead letter for a"
            " person to decide. The route `mail` holds it after three sends in doubt."
        ),
    ] = None
    on_route_fault: Annotated[
        OnRouteFault | None,
        says(
            "Bad credentials or configuration: `pause` the route, `fail` the message, or `retry` it"
            " like any failure. After a rate limit, `fail` means `retry` as well."
        ),
    ] = None
    timeout: Annotated[
        Time,
        says(
            "How long one attempt may take. The default of a mail route covers all that RFC 5321"
            " allows a server. Then a send is withdrawn and its connection closed; it is in doubt"
            " only if its last byte was written."
        ),
    ] = None
    concurrency: (
        Annotated[
            int, Meta(ge=1, le=1024, description="How many attempts run at a time in one process.")
        ]
        | None
    ) = None
    retention: RetentionSettings | None = None


class ServerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where `homing serve` listens."""

    host: Annotated[
        str, says("The address to listen on; any other than loopback needs tokens or users.")
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="The port; 0 takes a free one.")] = 8025
    auth: Annotated[
        Literal["token", "open", "session", "proxy"] | None,
        says(
            "`token`: every call needs an API token. `session`: people sign in, programs use"
            " tokens."
            " `proxy`: a proxy authenticates people, programs use tokens. `open`: no token is"
            " needed, on loopback only. Default: open on loopback while there is neither token nor"
            " user, otherwise `session`."
        ),
    ] = None
    url: Annotated[
        Text,
        says(
            "How browsers reach this service, such as `https://mail.example.org`; by default any"
            " host name is accepted. Required with `proxy`."
        ),
    ] = None
    proxies: Annotated[
        tuple[str, ...],
        says("Addresses or networks of proxies whose headers about the caller are trusted."),
    ] = ()
    proxy_header: Annotated[
        Text,
        says("With `proxy`: the header in which the proxy names the person (`X-Forwarded-User`)."),
    ] = None
    proxy_role: Annotated[
        PersonRole | None,
        says(
            "With `proxy`: the role of people whom `homing user` does not know; by default they are"
            " refused."
        ),
    ] = None
    session_idle: Annotated[Seconds, says("A session ends when it was not used for this long.")] = (
        Seconds(2 * 3600.0)
    )
    session_max: Annotated[Seconds, says("A session ends this long after the sign-in.")] = Seconds(
        12 * 3600.0
    )
    personal_data: Annotated[
        tuple[PersonRole, ...],
        says("The roles that see addresses and contents; for others these are masked."),
    ] = ("operator", "admin")
    tls_cert: Annotated[
        Text, says("Serve HTTPS with this certificate: a PEM file with intermediate certificates.")
    ] = None
    tls_key: Annotated[Text, says("The private key of `server.tls_cert`: a PEM file.")] = None


class LogSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What is logged, and where."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        says("The lowest level that is logged on stderr."),
    ] = "info"
    format: Annotated[
        Literal["json", "text"], says("One JSON object per line, or text for people.")
    ] = "text"
    alerts: Annotated[
        Text,
        says(
            "A file with a line for every dead letter and alert; if it fails, the system journal."
        ),
    ] = None
    deliveries: Annotated[Text, says("A file with a line for every delivery that succeeded.")] = (
        None
    )


class TelemetrySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Metrics, traces and error reports. All except Prometheus are off by default."""

    prometheus: Annotated[bool, says("Serve `/metrics`.")] = True
    otlp: Annotated[
        Literal["none", "http", "grpc"], says("Send OpenTelemetry metrics and traces, and how.")
    ] = "none"
    otlp_endpoint: Annotated[
        Text,
        says(
            "The collector's address, such as `http://127.0.0.1:4318`; by default that of"
            " OpenTelemetry's own variables."
        ),
    ] = None
    sentry_dsn: Annotated[Text, says("Report dead letters to this Sentry project.")] = None


class DkimSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The key with which mail of one domain is signed."""

    selector: Annotated[str, says("Where DNS has the public key: at `SELECTOR._domainkey.DOMAIN`.")]
    key_path: Annotated[str, says("A file with the RSA private key, as PEM.")]


class LimitSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What intake accepts at most."""

    body_bytes: Annotated[
        int, Meta(ge=1024, le=2**30, description="Text and HTML of one e-mail.")
    ] = DEFAULT.body_bytes
    attachments_bytes: Annotated[
        int, Meta(ge=0, le=2**30, description="All attachments of one e-mail, unpacked.")
    ] = DEFAULT.attachments_bytes
    recipients: Annotated[int, Meta(ge=1, le=1000, description="Recipients of one e-mail.")] = (
        DEFAULT.recipients
    )


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of `homing serve`, `homing worker` and the other commands."""

    store: Annotated[
        str,
        says(
            "Where deliveries are kept: `sqlite:///path`, `postgresql://user:secret@host/database`,"
            " `jsonl:///path` or `memory:` (for tests)."
        ),
    ] = "sqlite:///homing.db"
    provider: Annotated[
        str,
        says(
            "How mail is sent: `smtp://user:secret@host:587`, `smtps://…` or `graph:`; `stub:`"
            " sends nothing."
        ),
    ] = "stub:"
    sender: Annotated[
        Text, says("The From of all mail; required unless the provider is the stub.")
    ] = None
    senders: Annotated[
        tuple[str, ...],
        says(
            "Further addresses that a message may name as its From or Sender; `@example.org` means"
            " all of that domain."
        ),
    ] = ()
    templates: Annotated[
        Text, says("The folder of the template catalog (`<template>/<locale>/subject.tmpl` …).")
    ] = None
    journal: Annotated[
        Text,
        says(
            "The emergency journal: keeps outcomes of finished sends that the store refuses. By"
            " default SQLite and JSONL have it beside the store, and PostgreSQL has none."
        ),
    ] = None
    time_scale: Annotated[
        float,
        Meta(
            ge=1.0,
            le=100_000.0,
            description="For testing: due times, ladders, Retry-After and retention run this many"
            " times as fast; leases, timeouts and heartbeats do not. Refused with a provider that"
            " is not on loopback. Use a separate store.",
        ),
    ] = 1.0
    stop_grace: Annotated[Seconds, says("How long running attempts have to finish at SIGTERM.")] = (
        Seconds(20.0)
    )
    server: ServerSettings = ServerSettings()
    log: LogSettings = LogSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    limits: LimitSettings = LimitSettings()
    dkim: dict[str, DkimSettings] = field(default_factory=dict)
    routes: dict[str, RouteSettings] = field(default_factory=dict)

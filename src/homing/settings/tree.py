"""All settings, with their defaults and descriptions: the reference is generated from this."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

from homing.content.limits import DEFAULT
from homing.domain.policy import OnRouteFault, OnUnknown
from homing.engine.access.users import PersonRole
from homing.settings.durations import Seconds, Term


def says(about: str) -> Meta:
    """What a setting does, for the reference."""
    return Meta(description=about)


Text: TypeAlias = str | None
Time: TypeAlias = Seconds | None
Kept: TypeAlias = Term | None


class ExponentialSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Waits that grow by a factor."""

    initial: Annotated[Seconds, says("How long the first wait is.")] = Seconds(1.0)
    multiplier: Annotated[
        float,
        Meta(
            ge=1.0,
            le=1000.0,
            description="How many times as long each wait is as the one before it.",
        ),
    ] = 2.0
    max: Annotated[Time, says("How long a wait may become.")] = None


class RetrySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """When a failed attempt is tried again: by a ladder or by growing waits."""

    ladder: Annotated[
        tuple[Seconds, ...] | None,
        says(
            "The waits before the second, the third and each further attempt; the last one repeats."
        ),
    ] = None
    exponential: ExponentialSettings | None = None
    jitter: Annotated[
        bool | None,
        says(
            "Whether each wait is drawn at random between zero and its full length (full jitter)."
        ),
    ] = None
    retry_after_min: Annotated[
        Time,
        says("The shortest wait after a rate limit, whatever the provider's Retry-After says."),
    ] = None
    retry_after_max: Annotated[
        Time, says("The longest wait that a provider's Retry-After can cause.")
    ] = None


class RetentionSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How long each class of record is kept after its end; by default as the route defines it."""

    delivered: Annotated[Kept, says("How long delivered and suppressed deliveries are kept.")] = (
        None
    )
    dismissed: Annotated[
        Kept, says("How long dismissed dead letters and cancelled deliveries are kept.")
    ] = None
    failed: Annotated[Kept, says("How long open dead letters are kept.")] = None
    payload: Annotated[
        Kept,
        says("How long the content of delivered, suppressed and dismissed deliveries is kept."),
    ] = None
    failed_payload: Annotated[
        Kept,
        says("How long the content of open dead letters is kept; a replay needs it."),
    ] = None
    attempts: Annotated[Kept, says("How long the ledger of attempts is kept.")] = None
    key: Annotated[
        Kept,
        says(
            "How long an idempotency key is kept after the end of its delivery; a request with the"
            " same key then makes a new delivery."
        ),
    ] = None
    dead_letter: Annotated[
        Kept, says("How long dead letters that a plugin keeps as separate records are kept.")
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
                description="How many counted attempts are made before it becomes a dead letter.",
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
            "What happens when the route itself is broken (credentials, TLS, configuration):"
            " `pause` stops sending until a probe succeeds, `fail` makes the message a dead letter,"
            " `retry` treats it like any failure. After a rate limit, `fail` retries the message."
        ),
    ] = None
    timeout: Annotated[
        Time,
        says(
            "How long one attempt may take. When this time is over, a send is withdrawn and its"
            " connection is closed; its outcome is unknown only if its last byte was written. The"
            " default of a mail route covers all that RFC 5321 allows a server."
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
        str,
        says("The address on which it listens; any other than loopback needs tokens or users."),
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="The port on which it listens; 0 takes a free one.")
    ] = 8025
    auth: Annotated[
        Literal["token", "open", "session", "proxy"] | None,
        says(
            "How callers are authenticated. `token`: every call needs an API token. `session`:"
            " people sign in, programs use tokens. `proxy`: a proxy authenticates people, programs"
            " use tokens. `open`: no token is needed, on loopback only. By default `open` on"
            " loopback while there is neither token nor user, otherwise `session`."
        ),
    ] = None
    public_url: Annotated[
        Text,
        says(
            "The address at which browsers reach this service, such as"
            " `https://mail.example.org`; by default any host name is accepted. Required with"
            ' `auth = "proxy"`.'
        ),
    ] = None
    trusted_proxies: Annotated[
        tuple[str, ...],
        says("The addresses or networks of proxies whose headers about the caller are trusted."),
    ] = ()
    proxy_header: Annotated[
        Text,
        says(
            "The header in which the proxy names the person, such as `X-Forwarded-User`; only with"
            ' `auth = "proxy"`.'
        ),
    ] = None
    proxy_role: Annotated[
        PersonRole | None,
        says(
            "The role of people whom `homing user` does not know; by default they are refused."
            ' Only with `auth = "proxy"`.'
        ),
    ] = None
    session_idle: Annotated[Seconds, says("How long a session lasts without use.")] = Seconds(
        2 * 3600.0
    )
    session_max: Annotated[Seconds, says("How long a session lasts after the sign-in.")] = Seconds(
        12 * 3600.0
    )
    personal_data_roles: Annotated[
        tuple[PersonRole, ...],
        says("The roles that see addresses and contents; for other roles they are masked."),
    ] = ("operator", "admin")
    tls_cert: Annotated[
        Text, says("The PEM file of the certificate for HTTPS, with intermediate certificates.")
    ] = None
    tls_key: Annotated[Text, says("The PEM file of the private key of `server.tls_cert`.")] = None


class LogSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What is logged, and where."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        says("The lowest level that is logged on stderr."),
    ] = "info"
    format: Annotated[
        Literal["json", "text"],
        says("How a log line is written: as a JSON object, or as text for people."),
    ] = "text"
    alert_file: Annotated[
        Text,
        says(
            "The file that gets a line for every dead letter and alert; if it cannot be written,"
            " the line goes to the system journal."
        ),
    ] = None
    delivery_file: Annotated[
        Text, says("The file that gets a line for every delivery that succeeded.")
    ] = None


class TelemetrySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Metrics, traces and error reports. All except Prometheus are off by default."""

    prometheus: Annotated[bool, says("Whether `/metrics` is served.")] = True
    otlp: Annotated[
        Literal["none", "http", "grpc"], says("How OpenTelemetry metrics and traces are sent.")
    ] = "none"
    otlp_endpoint: Annotated[
        Text,
        says(
            "The address of the OpenTelemetry collector, such as `http://127.0.0.1:4318`; by"
            " default OpenTelemetry's own variables name it."
        ),
    ] = None
    sentry_dsn: Annotated[Text, says("The Sentry project to which dead letters are reported.")] = (
        None
    )


class DkimSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The key with which mail of one domain is signed."""

    selector: Annotated[
        str, says("The name under which DNS has the public key: `SELECTOR._domainkey.DOMAIN`.")
    ]
    key_path: Annotated[str, says("The PEM file of the RSA private key.")]


class LimitSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What intake accepts at most."""

    body_bytes: Annotated[
        int, Meta(ge=1024, le=2**30, description="The largest size of text and HTML of one e-mail.")
    ] = DEFAULT.body_bytes
    attachments_bytes: Annotated[
        int,
        Meta(
            ge=0,
            le=2**30,
            description="The largest size of all attachments of one e-mail, decoded.",
        ),
    ] = DEFAULT.attachments_bytes
    recipients: Annotated[
        int, Meta(ge=1, le=1000, description="The largest number of recipients of one e-mail.")
    ] = DEFAULT.recipients


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
    allowed_senders: Annotated[
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
            "The file of the emergency journal, which keeps outcomes of finished sends that the"
            " store refuses. By default SQLite and JSONL have it beside the store, and PostgreSQL"
            " has none."
        ),
    ] = None
    time_scale: Annotated[
        float,
        Meta(
            ge=1.0,
            le=100_000.0,
            description="How many times as fast due times, ladders, Retry-After and retention run,"
            " for tests; leases, timeouts and heartbeats keep their speed. Refused with a provider"
            " that is not on loopback. Use a separate store.",
        ),
    ] = 1.0
    shutdown_grace: Annotated[
        Seconds, says("How long running attempts have to finish after SIGTERM.")
    ] = Seconds(20.0)
    server: ServerSettings = ServerSettings()
    log: LogSettings = LogSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    limits: LimitSettings = LimitSettings()
    dkim: dict[str, DkimSettings] = field(default_factory=dict)
    routes: dict[str, RouteSettings] = field(default_factory=dict)

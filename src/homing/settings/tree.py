"""Everything that can be set, with its default. The reference in the docs is made from this."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from homing.domain.policy import OnDoubt, OnRouteFault
from homing.settings.durations import Seconds


class ExponentialSettings(Struct, frozen=True, forbid_unknown_fields=True):
    initial: Seconds = Seconds(1.0)
    multiplier: Annotated[float, Meta(ge=1.0)] = 2.0
    max: Seconds | None = None


class RetrySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Either `ladder` or `exponential`; with `jitter` the wait is drawn below the ceiling."""

    ladder: tuple[Seconds, ...] | None = None
    exponential: ExponentialSettings | None = None
    jitter: bool = False
    after_min: Seconds | None = None
    after_cap: Seconds | None = None


class RetentionSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How long each class is kept after its end; left out, for ever."""

    delivered: Seconds | None = None
    dismissed: Seconds | None = None
    payload: Seconds | None = None
    attempts: Seconds | None = None
    key: Seconds | None = None


class RouteSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Overrides for one route; what is left out keeps the route's own value."""

    retry: RetrySettings | None = None
    max_attempts: Annotated[int, Meta(ge=1, le=1000)] | None = None
    on_doubt: OnDoubt | None = None
    on_route_fault: OnRouteFault | None = None
    timeout: Seconds | None = None
    concurrency: Annotated[int, Meta(ge=1, le=1024)] | None = None
    retention: RetentionSettings | None = None


class ServerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where `homing serve` listens; any other bind than loopback needs API tokens."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8025


class LogSettings(Struct, frozen=True, forbid_unknown_fields=True):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "text"] = "text"
    alerts: str | None = None
    deliveries: str | None = None


class TelemetrySettings(Struct, frozen=True, forbid_unknown_fields=True):
    prometheus: bool = True
    otlp: Literal["none", "http", "grpc"] = "none"
    otlp_endpoint: str | None = None
    sentry_dsn: str | None = None


class LimitSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What intake accepts at the most."""

    body_bytes: Annotated[int, Meta(ge=1024)] = 1_000_000
    attachments_bytes: Annotated[int, Meta(ge=0)] = 25_000_000
    recipients: Annotated[int, Meta(ge=1, le=1000)] = 100


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be set, with its default."""

    store: str = "sqlite:///homing.db"
    provider: str = "stub:"
    sender: str | None = None
    templates: str | None = None
    time_scale: Annotated[float, Meta(gt=0)] = 1.0
    stop_grace: Seconds = Seconds(20.0)
    server: ServerSettings = ServerSettings()
    log: LogSettings = LogSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    limits: LimitSettings = LimitSettings()
    routes: dict[str, RouteSettings] = field(default_factory=dict)

"""The observers of a program, as its settings ask for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from homing.domain.errors import HomingError, SettingsError
from homing.observers.alert_log import AlertLog
from homing.observers.delivery_log import DeliveryLog
from homing.observers.logs import NO_FIELDS, LogObserver, configure
from homing.observers.measures import StoreSnapshot, store_snapshot
from homing.ports import Notifier, Observer
from homing.runtime.app import Homing
from homing.settings.tree import Settings, TelemetrySettings

if TYPE_CHECKING:
    from homing.observers.otlp import OtlpTelemetry
    from homing.observers.prometheus import PrometheusMetrics
    from homing.observers.sentry import SentryReports

STANDING_TIMEOUT_S = 2.0


class Telemetry:
    """Configures the logs and makes what was asked for; `close` it when the program ends."""

    def __init__(
        self,
        settings: Settings,
        *,
        scraped: bool = False,
        log_fields: Mapping[str, str] = NO_FIELDS,
    ) -> None:
        """`scraped`: this program has a page for a scraper. What is off is not even imported."""
        log, telemetry = settings.log, settings.telemetry
        configure(log.level, log.format, log_fields)
        self.alarm = AlertLog(None if log.alert_file is None else Path(log.alert_file))
        self.observers: list[Observer] = [LogObserver(log.level, log.format, log_fields)]
        self.notifiers: list[Notifier] = [self.alarm]
        if log.delivery_file is not None:
            self.notifiers.append(DeliveryLog(Path(log.delivery_file)))
        self._homing: tuple[Homing, asyncio.AbstractEventLoop] | None = None
        self._prometheus = _prometheus() if scraped and telemetry.prometheus else None
        self._otlp = _otlp(telemetry, self._snapshot_from_thread)
        self.sentry = None if telemetry.sentry_dsn is None else _sentry(telemetry.sentry_dsn)
        self.observers += [each for each in (self._prometheus, self._otlp) if each is not None]
        if self.sentry is not None:
            self.notifiers.append(self.sentry)

    def attach(self, homing: Homing) -> None:
        """Call it in the loop in which this Homing runs: gauges ask its store."""
        self._homing = homing, asyncio.get_running_loop()

    def metrics(self, homing: Homing) -> Callable[[Any], Awaitable[Any]] | None:
        """The endpoint for a scraper, if that was asked for."""
        prometheus = self._prometheus
        if prometheus is None:
            return None
        from starlette.responses import Response

        from homing.observers.prometheus import CONTENT_TYPE

        async def metrics(request: Any) -> Response:
            del request
            return Response(prometheus.page(await _snapshot(homing)), media_type=CONTENT_TYPE)

        return metrics

    def close(self) -> None:
        """Send what is still to be sent to the collectors."""
        for each in (self._otlp, self.sentry):
            if each is not None:
                each.close()

    def _snapshot_from_thread(self) -> StoreSnapshot | None:
        """For the exporter's own thread; nothing when the loop has ended."""
        if self._homing is None:
            return None
        homing, loop = self._homing
        if loop.is_closed() or not loop.is_running():
            return None
        asked = asyncio.run_coroutine_threadsafe(_snapshot(homing), loop)
        try:
            return asked.result(STANDING_TIMEOUT_S)
        except TimeoutError:
            asked.cancel()
            return None


async def _snapshot(homing: Homing) -> StoreSnapshot | None:
    with contextlib.suppress(HomingError, TimeoutError):
        async with asyncio.timeout(STANDING_TIMEOUT_S):
            engine = homing.engine
            workers = len(await engine.live_workers())
            return await store_snapshot(engine.store, engine.routes, engine.clock, workers)
    return None


def _prometheus() -> PrometheusMetrics:
    try:
        from homing.observers.prometheus import PrometheusMetrics
    except ImportError as error:
        raise _missing("telemetry.prometheus", "web") from error
    return PrometheusMetrics()


def _otlp(
    telemetry: TelemetrySettings, stands: Callable[[], StoreSnapshot | None]
) -> OtlpTelemetry | None:
    if telemetry.otlp == "none":
        return None
    try:
        from homing.observers.otlp import OtlpTelemetry

        return OtlpTelemetry(telemetry.otlp, telemetry.otlp_endpoint, stands=stands)
    except ImportError as error:
        extra = "otel-grpc" if telemetry.otlp == "grpc" else "otel"
        raise _missing("telemetry.otlp", extra) from error


def _sentry(dsn: str) -> SentryReports:
    try:
        from homing.observers.sentry import SentryReports
    except ImportError as error:
        raise _missing("telemetry.sentry_dsn", "sentry") from error
    try:
        return SentryReports(dsn)
    except ValueError:
        raise SettingsError("telemetry.sentry_dsn", "is not a Sentry DSN") from None


def _missing(setting: str, extra: str) -> SettingsError:
    return SettingsError(setting, f"needs the extra `{extra}`: pip install 'homing[{extra}]'")

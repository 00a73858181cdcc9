"""OpenTelemetry: the same numbers, and a span per attempt, sent to a collector."""

from __future__ import annotations

import hashlib
import importlib
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Status, StatusCode

from homing.domain.delivery import Attempt, Delivery
from homing.observers.measures import DURATIONS_S, StoreSnapshot, Tally, duration_ms
from homing.ports import Transitioned

EXPORT_TIMEOUT_S = 5.0
_DURATION = "homing.attempt.duration"
_GOOD = frozenset({"done", "suppressed"})


class OtlpTelemetry:
    """An observer that exports in the background; `close` sends what is left."""

    def __init__(
        self,
        protocol: Literal["http", "grpc"],
        endpoint: str | None,
        *,
        every_s: float = 15.0,
        stands: Callable[[], StoreSnapshot | None] = lambda: None,
    ) -> None:
        spans, metrics = _exporters(protocol, endpoint)
        resource = Resource.create({"service.name": "homing"})
        reader = PeriodicExportingMetricReader(
            metrics,
            export_interval_millis=every_s * 1000,
            export_timeout_millis=EXPORT_TIMEOUT_S * 1000,
        )
        view = View(
            instrument_name=_DURATION, aggregation=ExplicitBucketHistogramAggregation(DURATIONS_S)
        )
        self._meters = MeterProvider([reader], resource, shutdown_on_exit=False, views=[view])
        self._ids = _DeliveryIds()
        self._tracers = TracerProvider(
            resource=resource, shutdown_on_exit=False, id_generator=self._ids
        )
        self._tracers.add_span_processor(
            BatchSpanProcessor(
                spans,
                schedule_delay_millis=every_s * 1000,
                export_timeout_millis=EXPORT_TIMEOUT_S * 1000,
            )
        )
        self._tracer = self._tracers.get_tracer("homing")
        meter = self._meters.get_meter("homing")
        # Read when exported: the library's counters cost more than all other work here.
        self._tally = Tally()
        meter.create_observable_counter("homing.accepted", [self._accepted])
        meter.create_observable_counter("homing.transitions", [self._transitions])
        meter.create_observable_counter("homing.attempts", [self._attempts])
        self._durations = meter.create_histogram(_DURATION, unit="s")
        self._stands = stands
        meter.create_observable_gauge("homing.deliveries", [self._counts])
        meter.create_observable_gauge("homing.oldest_due", [self._overdue], unit="s")
        meter.create_observable_gauge("homing.workers", [self._workers])

    def observe(self, events: Sequence[Transitioned]) -> None:
        self._tally.count(events)
        for event in events:
            for attempt in event.ended:
                took_ms = duration_ms(attempt)
                if took_ms is not None:
                    self._durations.record(took_ms / 1000, {"route": event.delivery.route})
                self._trace(event.delivery, attempt)

    def close(self) -> None:
        """Send what is left; does not wait long for a collector that does not answer."""
        self._tracers.shutdown()
        self._meters.shutdown(EXPORT_TIMEOUT_S * 1000)

    def _trace(self, delivery: Delivery, attempt: Attempt) -> None:
        """All attempts of a delivery are one trace, whichever process made them."""
        ended_at_ms = attempt.ended_at_ms or delivery.updated_at_ms
        started_at_ms = min(attempt.started_at_ms or ended_at_ms, ended_at_ms)
        self._ids.trace_id = trace_id_of(delivery.id)
        span = self._tracer.start_span(
            f"attempt {attempt.stage}",
            start_time=started_at_ms * 1_000_000,
            attributes={
                "homing.delivery_id": delivery.id,
                "homing.route": delivery.route,
                "homing.stage": attempt.stage,
                "homing.attempt": attempt.number,
                "homing.cycle": attempt.cycle,
                "homing.outcome": attempt.status,
                "homing.maybe_sent": attempt.maybe_sent,
                **({"error.type": attempt.error_class} if attempt.error_class else {}),
            },
        )
        if attempt.status not in _GOOD:
            span.set_status(Status(StatusCode.ERROR, attempt.error_class))
        span.end(ended_at_ms * 1_000_000)

    def _accepted(self, options: CallbackOptions) -> Iterable[Observation]:
        del options
        for route, number in list(self._tally.accepted.items()):
            yield Observation(number, {"route": route})

    def _transitions(self, options: CallbackOptions) -> Iterable[Observation]:
        del options
        for (route, state), number in list(self._tally.transitions.items()):
            yield Observation(number, {"route": route, "state": state})

    def _attempts(self, options: CallbackOptions) -> Iterable[Observation]:
        del options
        for (route, stage, outcome), number in list(self._tally.attempts.items()):
            yield Observation(number, {"route": route, "stage": stage, "outcome": outcome})

    def _counts(self, options: CallbackOptions) -> Iterable[Observation]:
        del options
        stands = self._stands()
        for (route, state), number in (stands.counts if stands else {}).items():
            yield Observation(number, {"route": route, "state": state})

    def _overdue(self, options: CallbackOptions) -> Iterable[Observation]:
        del options
        stands = self._stands()
        for route, late_s in (stands.overdue_s if stands else {}).items():
            yield Observation(late_s, {"route": route})

    def _workers(self, options: CallbackOptions) -> Iterable[Observation]:
        del options
        stands = self._stands()
        if stands is not None:
            yield Observation(stands.workers)


class _DeliveryIds(RandomIdGenerator):
    """The trace is the delivery's; spans have ids of their own."""

    trace_id = 1

    def generate_trace_id(self) -> int:
        return self.trace_id


def trace_id_of(delivery_id: str) -> int:
    """A delivery's UUID is its trace id; other ids are hashed."""
    try:
        return uuid.UUID(delivery_id).int or 1
    except ValueError:
        return int.from_bytes(hashlib.sha256(delivery_id.encode()).digest()[:16], "big") or 1


def _exporters(
    protocol: Literal["http", "grpc"], endpoint: str | None
) -> tuple[SpanExporter, MetricExporter]:
    """Each protocol has its own client; only the configured one is loaded."""
    package = f"opentelemetry.exporter.otlp.proto.{protocol}"
    traces = importlib.import_module(f"{package}.trace_exporter").OTLPSpanExporter
    metrics = importlib.import_module(f"{package}.metric_exporter").OTLPMetricExporter
    if endpoint is None or protocol == "grpc":
        return (
            traces(endpoint, timeout=EXPORT_TIMEOUT_S),
            metrics(endpoint, timeout=EXPORT_TIMEOUT_S),
        )
    base = endpoint.rstrip("/")
    return (
        traces(f"{base}/v1/traces", timeout=EXPORT_TIMEOUT_S),
        metrics(f"{base}/v1/metrics", timeout=EXPORT_TIMEOUT_S),
    )

"""OpenTelemetry: the collector gets our numbers, and a span for every attempt."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc  # type: ignore[import-untyped] # ships no types
import pytest
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_pb
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as trace_grpc

from homing.observers import otlp
from homing.observers.measures import StoreSnapshot
from homing.observers.otlp import OtlpTelemetry, trace_id_of
from tests.unit.observers.collector import collecting
from tests.unit.observers.events import CANARY, DELIVERY_ID, T0_MS, accepted, refused, succeeded

NEVER_S = 3600.0
STANDS = StoreSnapshot({("mail", "pending"): 7}, {"mail": 2.5}, {"mail": False})


def spans_of(requests: list[trace_pb.ExportTraceServiceRequest]) -> list[Any]:
    return [
        span
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def metrics_of(requests: list[metrics_pb.ExportMetricsServiceRequest]) -> dict[str, Any]:
    return {
        metric.name: metric
        for request in requests
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def points(metric: Any) -> dict[tuple[str, ...], float]:
    found = {}
    for point in (*metric.sum.data_points, *metric.gauge.data_points):
        labels = tuple(item.value.string_value for item in point.attributes)
        found[labels] = point.as_int or point.as_double
    return found


def test_metrics_and_spans_reach_the_collector() -> None:
    with collecting() as collector:
        telemetry = OtlpTelemetry("http", collector.url, every_s=NEVER_S, stands=lambda: STANDS)
        telemetry.observe([accepted(), succeeded(), refused()])
        telemetry.close()
        traces = map(trace_pb.ExportTraceServiceRequest.FromString, collector.bodies("/v1/traces"))
        numbers = map(
            metrics_pb.ExportMetricsServiceRequest.FromString, collector.bodies("/v1/metrics")
        )
        spans, metrics = spans_of(list(traces)), metrics_of(list(numbers))
        everything = b"".join(body for _, body in collector.received)

    good, bad = spans
    assert good.name == "attempt send"
    assert good.trace_id == bad.trace_id == bytes.fromhex(DELIVERY_ID.replace("-", ""))
    assert good.span_id != bad.span_id
    assert good.start_time_unix_nano == T0_MS * 1_000_000
    assert good.end_time_unix_nano == (T0_MS + 250) * 1_000_000
    assert (good.status.code, bad.status.code) == (0, 2)
    assert bad.status.message == "recipient_refused"
    assert points(metrics["homing.accepted"]) == {("mail",): 1}
    assert points(metrics["homing.transitions"])["mail", "delivered"] == 1
    assert points(metrics["homing.attempts"])["mail", "send", "rejected"] == 1
    [durations] = metrics["homing.attempt.duration"].histogram.data_points
    assert (durations.count, durations.sum) == (2, 0.5)
    assert points(metrics["homing.deliveries"]) == {("mail", "pending"): 7}
    assert points(metrics["homing.oldest_due"]) == {("mail",): 2.5}
    assert CANARY.encode() not in everything


class _Traces(trace_grpc.TraceServiceServicer):
    def __init__(self) -> None:
        self.requests: list[trace_pb.ExportTraceServiceRequest] = []

    def Export(  # noqa: N802 - the protocol's name
        self, request: trace_pb.ExportTraceServiceRequest, context: object
    ) -> trace_pb.ExportTraceServiceResponse:
        self.requests.append(request)
        return trace_pb.ExportTraceServiceResponse()


class _Metrics(metrics_grpc.MetricsServiceServicer):
    def __init__(self) -> None:
        self.requests: list[metrics_pb.ExportMetricsServiceRequest] = []

    def Export(  # noqa: N802 - the protocol's name
        self, request: metrics_pb.ExportMetricsServiceRequest, context: object
    ) -> metrics_pb.ExportMetricsServiceResponse:
        self.requests.append(request)
        return metrics_pb.ExportMetricsServiceResponse()


@contextmanager
def grpc_collector(traces: _Traces, metrics: _Metrics) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(2))
    trace_grpc.add_TraceServiceServicer_to_server(traces, server)  # type: ignore[no-untyped-call]
    metrics_grpc.add_MetricsServiceServicer_to_server(metrics, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop(None).wait(5)


def test_the_same_by_grpc() -> None:
    traces, metrics = _Traces(), _Metrics()
    with grpc_collector(traces, metrics) as url:
        telemetry = OtlpTelemetry("grpc", url, every_s=NEVER_S)
        telemetry.observe([accepted(), succeeded()])
        telemetry.close()

    [span] = spans_of(traces.requests)
    assert span.trace_id.hex() == DELIVERY_ID.replace("-", "")
    assert points(metrics_of(metrics.requests)["homing.accepted"]) == {("mail",): 1}


@pytest.mark.timeout(60)
def test_a_collector_that_is_gone_does_not_hold_up_the_end(monkeypatch: Any) -> None:
    monkeypatch.setattr(otlp, "EXPORT_TIMEOUT_S", 0.5)
    with collecting() as collector:
        url = collector.url

    telemetry = OtlpTelemetry("http", url, every_s=NEVER_S)
    telemetry.observe([accepted(), succeeded()])
    telemetry.close()


def test_the_trace_is_the_deliverys_whoever_named_it() -> None:
    assert trace_id_of(DELIVERY_ID) == int(DELIVERY_ID.replace("-", ""), 16)
    assert trace_id_of("booking-42") == trace_id_of("booking-42")
    assert trace_id_of("booking-42") != trace_id_of("booking-43")
    assert trace_id_of("00000000-0000-0000-0000-000000000000") == 1

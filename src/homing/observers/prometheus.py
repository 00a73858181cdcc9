"""Prometheus: counters of this process, gauges of the store, as text for a scraper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from homing.domain.delivery import State
from homing.observers.measures import DURATIONS_S, Standing, measured
from homing.ports import Transitioned

CONTENT_TYPE = CONTENT_TYPE_LATEST


class PrometheusMetrics:
    """An observer whose numbers can be scraped. Labels are routes, stages, states and outcomes."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._gauges = _Gauges()
        self._registry.register(self._gauges)
        ProcessCollector(registry=self._registry)
        self._accepted = Counter(
            "homing_accepted", "Deliveries accepted.", ["route"], registry=self._registry
        )
        self._transitions = Counter(
            "homing_transitions",
            "Deliveries that came into a state.",
            ["route", "state"],
            registry=self._registry,
        )
        self._attempts = Counter(
            "homing_attempts",
            "Attempts ended.",
            ["route", "stage", "outcome"],
            registry=self._registry,
        )
        self._durations = Histogram(
            "homing_attempt_duration_seconds",
            "From the claim of a delivery to the outcome of its attempt.",
            ["route"],
            buckets=DURATIONS_S,
            registry=self._registry,
        )

    def observe(self, events: Sequence[Transitioned]) -> None:
        found = measured(events)
        for route, number in found.accepted.items():
            self._accepted.labels(route).inc(number)
        for transition, number in found.transitions.items():
            self._transitions.labels(*transition).inc(number)
        for attempt, number in found.attempts.items():
            self._attempts.labels(*attempt).inc(number)
        for route, took_s in found.durations:
            self._durations.labels(route).observe(took_s)

    def page(self, stands: Standing | None) -> bytes:
        """The text; without a standing the store did not answer, and the page says so."""
        self._gauges.stands = stands
        return generate_latest(self._registry)


class _Gauges(Collector):
    def __init__(self) -> None:
        self.stands: Standing | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        stands = self.stands
        up = "Whether the store answered."
        yield GaugeMetricFamily("homing_store_up", up, value=float(stands is not None))
        if stands is None:
            return
        counts = GaugeMetricFamily(
            "homing_deliveries", "Deliveries in the store.", labels=["route", "state"]
        )
        for route in sorted({*stands.overdue_s, *(route for route, _ in stands.counts)}):
            for state in get_args(State):
                counts.add_metric([route, state], stands.counts.get((route, state), 0))
        yield counts
        late = GaugeMetricFamily(
            "homing_oldest_due_seconds",
            "How long the oldest due delivery has been waiting for its attempt.",
            labels=["route"],
        )
        for route, late_s in stands.overdue_s.items():
            late.add_metric([route], late_s)
        yield late
        parked = GaugeMetricFamily(
            "homing_route_parked", "1 while the route is parked.", labels=["route"]
        )
        for route, is_parked in stands.parked.items():
            parked.add_metric([route], float(is_parked))
        yield parked

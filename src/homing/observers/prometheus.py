"""Prometheus: counters of this process, gauges of the store, as text for a scraper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import get_args

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from homing.domain.delivery import State
from homing.observers.measures import DURATIONS_S, StoreSnapshot, Tally
from homing.ports import Transitioned

CONTENT_TYPE = CONTENT_TYPE_LATEST
_BOUNDS = (*map(str, DURATIONS_S), "+Inf")


class PrometheusMetrics:
    """An observer whose numbers can be scraped. Labels are routes, stages, states and outcomes."""

    def __init__(self) -> None:
        self._tally = Tally()
        self._gauges = _Gauges()
        self._registry = CollectorRegistry()
        self._registry.register(self._gauges)
        ProcessCollector(registry=self._registry)
        self._registry.register(_Counts(self._tally))

    def observe(self, events: Sequence[Transitioned]) -> None:
        self._tally.count(events)

    def page(self, stands: StoreSnapshot | None) -> bytes:
        """The text; without a snapshot the store did not answer, and the page says so."""
        self._gauges.stands = stands
        return generate_latest(self._registry)


class _Counts(Collector):
    """Made at each scrape, because the library's own counters cost ten times as much a delivery."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def collect(self) -> Iterator[Metric]:
        tally = self._tally
        accepted = CounterMetricFamily("homing_accepted", "Deliveries accepted.", labels=["route"])
        for route, number in tally.accepted.items():
            accepted.add_metric([route], number)
        yield accepted
        transitions = CounterMetricFamily(
            "homing_transitions", "Deliveries that entered a state.", labels=["route", "state"]
        )
        for transition, number in tally.transitions.items():
            transitions.add_metric(transition, number)
        yield transitions
        attempts = CounterMetricFamily(
            "homing_attempts", "Attempts ended.", labels=["route", "stage", "outcome"]
        )
        for attempt, number in tally.attempts.items():
            attempts.add_metric(attempt, number)
        yield attempts
        entries = CounterMetricFamily(
            "homing_failure_history_entries",
            "Cycles that replays have added to failure histories.",
            labels=["route"],
        )
        size = CounterMetricFamily("homing_failure_history_bytes", "Their size.", labels=["route"])
        for route, (number, added) in tally.cycles.items():
            entries.add_metric([route], number)
            size.add_metric([route], added)
        yield entries
        yield size
        durations = HistogramMetricFamily(
            "homing_attempt_duration_seconds",
            "From the claim of a delivery to the outcome of its attempt.",
            labels=["route"],
        )
        for route, found in tally.durations.items():
            buckets = list(zip(_BOUNDS, accumulate(found.counts), strict=True))
            durations.add_metric([route], buckets, found.sum_ms / 1000)
        yield durations


class _Gauges(Collector):
    def __init__(self) -> None:
        self.stands: StoreSnapshot | None = None

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
        paused = GaugeMetricFamily(
            "homing_route_paused", "1 while the route is paused.", labels=["route"]
        )
        for route, is_paused in stands.paused.items():
            paused.add_metric([route], float(is_paused))
        yield paused
        alive = "Processes that run workers and are alive."
        yield GaugeMetricFamily("homing_workers", alive, value=float(stands.workers))

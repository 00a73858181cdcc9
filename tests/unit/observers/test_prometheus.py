"""Prometheus reads our page: counters of the work, gauges of the store, no personal data."""

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from homing.domain.message import Email
from homing.observers.measures import StoreSnapshot, store_snapshot
from homing.observers.prometheus import PrometheusMetrics
from homing.providers.stub import StubProvider
from homing.runtime.app import Homing
from homing.runtime.mail_route import mail_route
from homing.testing.clocks import ManualClock
from tests.unit.observers.events import CANARY, T0_MS, accepted, attempt, refused, succeeded

Labels = Mapping[str, str]
EMPTY = StoreSnapshot({}, {"mail": 0.0}, {"mail": False})


class Page:
    def __init__(self, text: bytes) -> None:
        self.samples = [
            sample
            for family in text_string_to_metric_families(text.decode())
            for sample in family.samples
        ]

    def value(self, name: str, **labels: str) -> float | None:
        for sample in self.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return float(sample.value)
        return None


def test_work_is_counted_and_timed() -> None:
    metrics = PrometheusMetrics()

    metrics.observe([accepted(), accepted(), succeeded()])
    metrics.observe([refused()])
    page = Page(metrics.page(EMPTY))

    assert page.value("homing_accepted_total", route="mail") == 2
    assert page.value("homing_transitions_total", route="mail", state="pending") == 2
    assert page.value("homing_transitions_total", route="mail", state="delivered") == 1
    assert page.value("homing_transitions_total", route="mail", state="failed") == 1
    assert page.value("homing_attempts_total", outcome="done", stage="send", route="mail") == 1
    assert page.value("homing_attempts_total", outcome="rejected") == 1
    assert page.value("homing_attempt_duration_seconds_count", route="mail") == 2
    assert page.value("homing_attempt_duration_seconds_sum", route="mail") == 0.5
    assert page.value("homing_attempt_duration_seconds_bucket", le="0.1") == 0
    assert page.value("homing_attempt_duration_seconds_bucket", le="0.25") == 2


def test_an_attempt_that_takes_for_ever_or_less_than_no_time_is_still_counted() -> None:
    metrics = PrometheusMetrics()
    event = succeeded()
    for ended_at_ms in (T0_MS + 90_000, T0_MS - 5):
        ended = (attempt(ended_at_ms=ended_at_ms),)
        metrics.observe([type(event)("fail", event.delivery, event.previous, ended, T0_MS)])

    page = Page(metrics.page(EMPTY))

    assert page.value("homing_attempt_duration_seconds_bucket", le="0.001") == 1
    assert page.value("homing_attempt_duration_seconds_bucket", le="60.0") == 1
    assert page.value("homing_attempt_duration_seconds_bucket", le="+Inf") == 2
    assert page.value("homing_attempt_duration_seconds_sum") == 90.0


def test_the_page_tells_of_the_process_and_of_nobody() -> None:
    metrics = PrometheusMetrics()

    metrics.observe([accepted(), succeeded(), refused()])
    text = metrics.page(EMPTY)

    assert CANARY.encode() not in text
    assert Page(text).value("process_resident_memory_bytes")


def test_the_gauges_show_how_things_stand() -> None:
    stands = StoreSnapshot(
        {("mail", "pending"): 3, ("mail", "failed"): 1, ("old", "delivered"): 9},
        {"mail": 12.5},
        {"mail": True},
        workers=2,
    )

    page = Page(PrometheusMetrics().page(stands))

    assert page.value("homing_store_up") == 1
    assert page.value("homing_deliveries", route="mail", state="pending") == 3
    assert page.value("homing_deliveries", route="mail", state="failed") == 1
    assert page.value("homing_deliveries", route="mail", state="delivered") == 0
    assert page.value("homing_deliveries", route="old", state="delivered") == 9
    assert page.value("homing_oldest_due_seconds", route="mail") == 12.5
    assert page.value("homing_route_paused", route="mail") == 1
    assert page.value("homing_workers") == 2


def test_a_store_that_does_not_answer_leaves_the_counters_readable() -> None:
    metrics = PrometheusMetrics()
    metrics.observe([accepted()])

    page = Page(metrics.page(None))

    assert page.value("homing_store_up") == 0
    assert page.value("homing_accepted_total", route="mail") == 1
    assert page.value("homing_deliveries", route="mail") is None


async def test_the_standing_is_the_stores() -> None:
    clock, provider = ManualClock(), StubProvider()
    homing = Homing("memory:", routes=(mail_route(provider),), worker=False, clock=clock)
    async with homing:
        for name in ("ok", "bounce", "ok"):
            await homing.submit(Email(to=f"{name}@stub.test", subject="S", text="t"))
        await homing.engine.run_until_idle()
        await homing.submit(Email(to="ok@stub.test", subject="S", text="t"))
        await homing.ops.pause("mail", actor="ann", reason="maintenance")
        clock.advance(30)

        found = await store_snapshot(homing.store, homing.engine.routes, clock, workers=3)

    assert found.counts["mail", "delivered"] == 2
    assert found.counts["mail", "failed"] == 1
    assert found.counts["mail", "pending"] == 1
    assert found.overdue_s["mail"] == 30.0
    assert found.paused["mail"] is True
    assert found.workers == 3

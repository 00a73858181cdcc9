"""Sentry: every dead letter is an event, its attempts are breadcrumbs, nobody is named."""

import asyncio
import json
from typing import Any

import pytest

from homing.domain.message import Email
from homing.observers import sentry
from homing.observers.sentry import SentryReports, event_of
from homing.plugins.programs import build
from homing.plugins.telemetry import Telemetry
from homing.ports import Notice
from homing.settings import Settings
from homing.settings.tree import TelemetrySettings
from tests.unit.observers.collector import Collector, collecting
from tests.unit.observers.events import CANARY, DELIVERY_ID, attempt, dead_letter

ATTEMPTS = (
    attempt("failed", error_class="deferred", code="451", detail=CANARY),
    attempt("rejected", number=2, error_class="recipient_refused", code="550", detail=CANARY),
)


def dsn(collector: Collector) -> str:
    return f"{collector.url.replace('//', '//publickey@')}/42"


def events(collector: Collector) -> list[dict[str, Any]]:
    """The events in the envelopes: a head, then for each item its own head and body."""
    found = []
    for body in collector.bodies("/api/42/envelope/"):
        lines = body.splitlines()
        for head, item in zip(lines[1::2], lines[2::2], strict=True):
            if json.loads(head)["type"] == "event":
                found.append(json.loads(item))
    return found


async def test_a_dead_letter_is_reported() -> None:
    with collecting() as collector:
        reports = SentryReports(dsn(collector))
        given = await reports.notify("sentry", [Notice(dead_letter(), ATTEMPTS)])
        await asyncio.to_thread(reports.close)

    [event] = events(collector)
    assert given == [True]
    assert event["message"] == "dead letter on mail: rejected, recipient_refused"
    assert event["level"] == "error"
    assert event["tags"]["code"] == "550"
    assert event["extra"]["delivery_id"] == DELIVERY_ID
    assert [crumb["message"] for crumb in event["breadcrumbs"]["values"]] == [
        "attempt 1 (send): failed",
        "attempt 2 (send): rejected",
    ]
    assert CANARY not in json.dumps(event)


def test_the_same_letter_is_the_same_event_and_the_next_cycle_another() -> None:
    first, again = event_of(dead_letter(), ()), event_of(dead_letter(), ATTEMPTS)
    later = event_of(dead_letter(cycle=2), ())

    assert first["event_id"] == again["event_id"] != later["event_id"]
    assert first["fingerprint"] == later["fingerprint"]


@pytest.mark.parametrize("status", [500, 429])
async def test_an_event_that_did_not_get_through_stays_owed(status: int) -> None:
    with collecting() as collector:
        collector.answer = status
        reports = SentryReports(dsn(collector))
        assert await reports.notify("sentry", [Notice(dead_letter(), ATTEMPTS)]) == [False]


async def test_a_sentry_that_is_gone_leaves_it_owed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentry, "FLUSH_S", 1.0)
    with collecting() as collector:
        where = dsn(collector)

    assert await SentryReports(where).notify("sentry", [Notice(dead_letter(), ATTEMPTS)]) == [False]


async def test_a_program_with_a_dsn_reports_what_fails() -> None:
    with collecting() as collector:
        settings = Settings(store="memory:", telemetry=TelemetrySettings(sentry_dsn=dsn(collector)))
        telemetry = Telemetry(settings)
        homing = build(settings, worker=False, notifiers=telemetry.notifiers)
        async with homing:
            ticket = await homing.submit(Email(to="bounce@stub.test", subject=CANARY, text="t"))
            await homing.engine.run_until_idle()
            after = await homing.ops.show(ticket.delivery_id)
        await asyncio.to_thread(telemetry.close)

    [event] = events(collector)
    assert event["extra"]["delivery_id"] == ticket.delivery_id
    assert after.notices_due == ()

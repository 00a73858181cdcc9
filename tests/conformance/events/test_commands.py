"""`homing events`: the worker with an application's handlers, alerts, and the dead letters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from homing import Event, Homing
from tests.unit.cli.programs import Program, run, started, until
from tests.unit.observers.collector import collecting
from tests.unit.observers.test_sentry import dsn, events

APP = """\
from pathlib import Path

from homing import Homing
from homing.events import RetryPolicy, TerminalHandlerError

homing = Homing("sqlite:///shop.db", worker=False)


@homing.on("invoice.paid", policy=RetryPolicy(base_delay_s=0.001))
async def book(event):
    raise ConnectionError("no ledger")


@homing.on("invoice.void")
async def void(event):
    if not Path("repaired").exists():
        raise TerminalHandlerError("no such invoice")
"""
WORKER = ["-m", "homing", "events", "worker", "--app", "shop"]
SEVEN = ["event_id", "event_type", "source", "target", "handler_name", "last_error", "attempts"]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def publish(folder: Path, event_type: str, key: str) -> str:
    async def accept() -> str:
        async with Homing(f"sqlite:///{folder}/shop.db", worker=False) as homing:
            target = {"target": "ledger"}
            ticket = await homing.submit(
                Event(event_type, {"n": 1}), key=key, source="shop", metadata=target
            )
            return ticket.delivery_id

    return asyncio.run(accept())


@contextmanager
def working(folder: Path, **settings: str) -> Iterator[Program]:
    settings = {"HOMING_LOG__FORMAT": "json", **settings}
    with started(folder, WORKER, **settings) as worker:
        until(lambda: "Homing worker is running" in worker.said(), what="the worker")
        yield worker


def lines(worker: Program, **wanted: object) -> list[dict[str, Any]]:
    """The structured log lines with these fields."""
    found = [json.loads(line) for line in worker.said().splitlines() if line.startswith("{")]
    return [line for line in found if wanted.items() <= line.items()]


def dead(folder: Path) -> dict[str, Any]:
    told = run(folder, "events", "dlq", "list", "--json", "--store", "sqlite:///shop.db").stdout
    found: dict[str, Any] = json.loads(told)
    return found


def test_each_attempt_is_a_line_and_each_failure_one_alert(shop: Path) -> None:
    """E-050, E-051, E-053"""
    run(shop, "events", "migrate", "--app", "shop")
    event_id = publish(shop, "invoice.paid", "a")
    with collecting() as sentry, working(shop, HOMING_TELEMETRY__SENTRY_DSN=dsn(sentry)) as worker:
        until(lambda: events(sentry), what="the report")
        told = lines(worker, delivery=event_id)
        alerts = lines(worker, event="event_failed")

    assert [line["event"] for line in told] == ["fail"] * 4 + ["failed"]
    assert [line["attempts"] for line in told] == [1, 2, 3, 4, 5]
    expected = {
        "event_id": event_id,
        "event_type": "invoice.paid",
        "source": "shop",
        "target": "ledger",
        "handler_name": "book",
        "last_error": "ConnectionError: no ledger",
        "attempts": 5,
    }
    assert [{name: alert[name] for name in SEVEN} for alert in alerts] == [expected]
    [report] = events(sentry)
    assert expected.items() <= report["extra"].items()
    assert report["breadcrumbs"]["values"][-1]["data"] == expected


def test_a_failure_after_a_replay_alerts_again(shop: Path) -> None:
    """E-042, E-052"""
    run(shop, "events", "migrate", "--app", "shop")
    event_id = publish(shop, "invoice.void", "a")
    replay = ["events", "dlq", "replay", event_id, "--store", "sqlite:///shop.db"]
    with working(shop) as worker:
        until(lambda: lines(worker, event="event_failed"), what="the alert")
        [row] = dead(shop)["events"]
        assert (row["event_id"], row["attempts"], row["history_entries"]) == (event_id, 1, 0)
        told = run(shop, *replay, "--generation", "0", "--by", "ann@example.org").stdout
        assert told == f"{event_id} is pending with generation 0\n"
        until(lambda: len(lines(worker, event="event_failed")) == 2, what="the second alert")
        (shop / "repaired").touch()
        run(shop, *replay, "--generation", "0", "--by", "sql-direct")
        until(lambda: lines(worker, event="delivered"), what="the delivery")
    assert dead(shop)["events"] == []
    shown = run(shop, "events", "dlq", "show", event_id, "--json", "--store", "sqlite:///shop.db")
    event = json.loads(shown.stdout)["event"]
    assert [cycle["replayed_by"] for cycle in event["failure_history"]] == [
        "ann@example.org",
        "sql-direct",
    ]
    assert event["history_entries"] == 2
    assert event["history_bytes"] > 100
    text = run(shop, "events", "dlq", "show", event_id, "--store", "sqlite:///shop.db").stdout
    assert "status:           delivered" in text


def test_replay_states_its_generation_and_who(shop: Path) -> None:
    """E-037, E-044"""
    run(shop, "events", "migrate", "--app", "shop")
    event_id = publish(shop, "invoice.void", "a")
    replay = ["events", "dlq", "replay", event_id, "--store", "sqlite:///shop.db"]

    assert "--generation" in run(shop, *replay, "--by", "ann", code=2).stderr
    assert "--by" in run(shop, *replay, "--generation", "1", code=2).stderr
    told = run(shop, *replay, "--by", "ann", "--generation", "1", code=1).stderr
    assert "it is pending" in told


def test_the_worker_says_what_it_lacks(shop: Path) -> None:
    told = run(shop, "events", "worker", code=2).stderr
    assert "--app module:homing" in told
    told = run(shop, "events", "worker", "--app", "shop", code=2).stderr
    assert "does not exist" in told
    told = run(shop, "events", "dlq", "list", "--store", "sqlite:///shop.db", code=2).stderr
    assert "does not exist" in told
    run(shop, "events", "migrate", "--app", "shop")
    told = run(shop, "events", "worker", "--app", "shop", code=2, HOMING_TIME_SCALE="60").stderr
    assert "time_scale (HOMING_TIME_SCALE) has no effect" in told


def test_other_assemblies_take_no_application(shop: Path) -> None:
    told = run(shop, "mail", "worker", "--app", "shop", code=2).stderr
    assert "--app is not for mail" in told

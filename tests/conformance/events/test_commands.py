"""`homing events`: the worker with an application's handlers, alerts, and the dead letters."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from homing import Event, Homing
from tests.unit.cli.conftest import Cli
from tests.unit.cli.programs import Program, started, until
from tests.unit.observers.collector import collecting
from tests.unit.observers.test_sentry import dsn, events

APP = """\
from pathlib import Path

from homing import Homing
from homing_systems.events import RetryPolicy, TerminalHandlerError

homing = Homing("sqlite:///shop.db", worker=False)


@homing.on("invoice.paid", retry=RetryPolicy(base_delay_s=0.001).retry)
async def book(event):
    raise ConnectionError("no ledger")


@homing.on("invoice.void")
async def void(event):
    if not Path("repaired").exists():
        raise TerminalHandlerError("no such invoice")


@homing.on("invoice.sent")
async def file_it(event):
    pass


@homing.on("invoice.sent")
async def count_it(event):
    raise TerminalHandlerError("no counter")
"""
WORKER = ["-m", "homing", "events", "worker", "--app", "events_shop"]
STORE = "sqlite:///shop.db"
SEVEN = ["event_id", "event_type", "source", "target", "handler_name", "last_error", "attempts"]


@pytest.fixture
def shop(cli: Cli, tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "events_shop.py").write_text(APP)
    cli("events", "migrate", "--store", STORE)
    yield tmp_path
    sys.modules.pop("events_shop", None)


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


def dead(cli: Cli) -> list[dict[str, Any]]:
    found: dict[str, Any] = cli("events", "dlq", "list", "--json", "--store", STORE).json
    assert found["failed_in_7_days"] == len(found["events"])
    rows: list[dict[str, Any]] = found["events"]
    return rows


def test_each_attempt_is_a_line_and_each_failure_one_alert(shop: Path) -> None:
    """E-050, E-051, E-053"""
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


def test_of_several_handlers_each_that_failed_alerts_and_the_event_does_not(shop: Path) -> None:
    """E-050, E-051"""
    event_id = publish(shop, "invoice.sent", "a")
    with collecting() as sentry, working(shop, HOMING_TELEMETRY__SENTRY_DSN=dsn(sentry)) as worker:
        until(lambda: lines(worker, delivery=event_id, event="failed"), what="the failed event")
        # Reports are sent one after the other: when this one is there, no other is on its way.
        last = publish(shop, "invoice.void", "b")
        until(
            lambda: [each for each in events(sentry) if each["extra"]["event_id"] == last],
            what="the last report",
        )
        alerts = lines(worker, event="event_failed")

    told = [("invoice.sent", "count_it"), ("invoice.void", "void")]
    assert [(each["event_type"], each["handler_name"]) for each in alerts] == told
    reported = [
        (each["extra"]["event_type"], each["extra"]["handler_name"]) for each in events(sentry)
    ]
    assert reported == told
    assert alerts[0]["event_id"] == event_id


def test_a_failure_after_a_replay_alerts_again(shop: Path, cli: Cli) -> None:
    """E-042, E-052"""
    event_id = publish(shop, "invoice.void", "a")
    replay = ["events", "dlq", "replay", event_id, "--store", STORE, "--generation", "0", "--by"]
    with working(shop) as worker:
        until(lambda: lines(worker, event="event_failed"), what="the alert")
        [row] = dead(cli)
        assert (row["event_id"], row["attempts"], row["history_entries"]) == (event_id, 1, 0)
        told = cli(*replay, "ann@example.org").out
        assert told == f"{event_id} is pending with generation 0\n"
        until(lambda: len(lines(worker, event="event_failed")) == 2, what="the second alert")
        (shop / "repaired").touch()
        cli(*replay, "sql-direct")
        until(lambda: lines(worker, event="delivered"), what="the delivery")
    assert dead(cli) == []
    show = ["events", "dlq", "show", event_id, "--store", STORE]
    event = cli(*show, "--json").json["event"]
    who = [cycle["replayed_by"] for cycle in event["failure_history"]]
    assert who == ["ann@example.org", "sql-direct"]
    assert event["history_entries"] == 2
    assert event["history_bytes"] > 100
    told_row = cli(*show).out
    assert "status:           delivered" in told_row
    tries = [line.split() for line in told_row.splitlines() if line.startswith("attempt:")]
    assert [(line[1], line[3], line[6]) for line in tries] == [
        ("void", "1", "rejected"),
        ("void", "2", "rejected"),
        ("void", "3", "done"),
    ]
    assert "TerminalHandlerError: no such invoice" in told_row


def test_replay_states_its_generation_and_who(shop: Path, cli: Cli) -> None:
    """E-037, E-044"""
    event_id = publish(shop, "invoice.void", "a")
    replay = ["events", "dlq", "replay", event_id, "--store", STORE]

    assert "--generation" in cli(*replay, "--by", "ann", code=2).err
    assert "--by" in cli(*replay, "--generation", "1", code=2).err
    assert "it is pending" in cli(*replay, "--by", "ann", "--generation", "1", code=1).err
    assert (
        "replayed_by: must not be empty"
        in cli(*replay, "--by", "", "--generation", "1", code=2).err
    )
    missing = ["events", "dlq", "show", "missing", "--store", STORE]
    assert "no event missing" in cli(*missing, code=1).err


def test_a_database_without_the_schema_is_named(
    cli: Cli, tmp_path: Path, empty_database: str
) -> None:
    (tmp_path / "events_pg.py").write_text(
        f"from homing import Homing\nhoming = Homing({empty_database!r})\n"
    )
    told = cli("events", "worker", "--app", "events_pg", code=2).err
    for name in ("0001_deliveries", "events/20260401000000_core_outbox.sql"):
        assert name in told
    assert "`homing events migrate` adds it" in told
    assert (
        "`homing events migrate` adds it"
        in cli("events", "dlq", "list", "--store", empty_database, code=2).err
    )


def test_the_worker_says_what_it_lacks(
    shop: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = ["events", "worker", "--app", "events_shop"]
    (shop / "shop.db").unlink()

    assert "--app module:homing" in cli("events", "worker", code=2).err
    assert "does not exist" in cli(*work, code=2).err
    assert "does not exist" in cli("events", "dlq", "list", "--store", STORE, code=2).err
    cli("events", "migrate", "--app", "events_shop")
    monkeypatch.setenv("HOMING_TIME_SCALE", "60")
    assert "time_scale (HOMING_TIME_SCALE) has no effect" in cli(*work, code=2).err

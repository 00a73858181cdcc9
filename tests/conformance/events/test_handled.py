"""`core.event_handled`: who has handled what, and effects that are made once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from homing import Event, Failure, Homing
from homing.domain.delivery import Fact
from homing.stores.sql.postgres import PostgresStore
from homing_systems.events import TerminalHandlerError
from tests.conformance.events.outbox import Outbox, work
from tests.unit.cli.programs import started, until

HANDLED = "select * from core.event_handled order by handler_name"


def with_effects(outbox: Outbox, *errors: object) -> tuple[Homing, list[str]]:
    """A handler that writes a row into the store's database; it raises or returns these first."""
    outbox.sql("create table if not exists effects (event_id uuid)")
    homing, calls, left = outbox.homing(), list[str](), list(errors)

    @homing.on("paid", name="book", terminal_errors=(LookupError,))
    async def book(event: Any, connection: psycopg.AsyncConnection[Any]) -> Any:
        calls.append(event.id)
        await connection.execute("insert into effects values (%s)", (event.id,))
        problem = left.pop(0) if left else None
        if isinstance(problem, Exception):
            raise problem
        return problem

    return homing, calls


def effects(outbox: Outbox) -> int:
    return int(outbox.value("select count(*) from effects"))


async def test_every_handled_event_leaves_a_row(outbox: Outbox) -> None:
    """E-002"""
    homing, _ = with_effects(outbox)
    homing.on("sent", name="file/it")(lambda event: None)
    homing.on("two", name="first")(lambda event: None)
    homing.on("two", name="second")(lambda event: None)
    async with homing:
        ids = [
            (await homing.submit(Event(kind), key=kind)).delivery_id
            for kind in ("paid", "sent", "two", "nobody")
        ]
        await work(homing)

    rows = outbox.sql(HANDLED)
    assert [
        (str(row["event_id"]), row["handler_name"], row["idempotency_key"]) for row in rows
    ] == [
        (ids[0], "book", "paid"),
        (ids[1], "file/it", "sent"),
        (ids[2], "first", "two"),
        (ids[2], "second", "two"),
    ]
    assert None not in [row["handled_at"] for row in rows]


async def test_a_row_that_is_there_skips_the_handler(outbox: Outbox) -> None:
    """E-054"""
    homing, calls = with_effects(outbox)
    plain = list[str]()
    homing.on("sent", name="file_it")(lambda event: plain.append(event.id))
    insert = "insert into core.event_handled (event_id, handler_name) values (%s, %s)"
    paid, sent = outbox.enqueue("a", "paid"), outbox.enqueue("b", "sent")
    outbox.sql(insert, paid, "book")
    outbox.sql(insert, sent, "file_it")
    other = outbox.enqueue("c", "sent")
    with pytest.raises(psycopg.errors.UniqueViolation):
        outbox.sql(insert, sent, "file_it")

    async with homing:
        await work(homing)

    assert (calls, plain, effects(outbox)) == ([], [other], 0)
    words = outbox.sql("select distinct status from core.outbox")
    assert words == [{"status": "delivered"}]
    with pytest.raises(psycopg.Error, match="is delivered"):
        outbox.sql("delete from core.event_handled where event_id = %s", other)
    outbox.sql("delete from core.event_handled where event_id = %s", paid)


@pytest.mark.parametrize("kind", ["paid", "sent"])
async def test_an_event_that_was_handled_and_is_replayed_has_its_effect_once(
    outbox: Outbox, kind: str
) -> None:
    """E-055"""
    homing, calls = with_effects(outbox)
    homing.on("sent", name="file_it")(lambda event: calls.append(event.id))
    event_id = outbox.enqueue("a", kind)
    async with homing:
        await work(homing)
        outbox.sql(
            "update core.outbox set status = 'failed', last_error = 'customer called'"
            " where event_id = %s",
            event_id,
        )
        assert outbox.row(event_id)["last_error"] == "customer called"
        attempts = await homing.ops.attempts(event_id)
        outbox.replay(event_id, 0, "ann")
        await work(homing)
        assert [attempt.status for attempt in attempts] == ["done"]

    assert calls == [event_id]
    assert outbox.row(event_id)["status"] == "delivered"
    assert len(outbox.row(event_id)["failure_history"]) == 1


@pytest.mark.parametrize(
    "problem",
    [TerminalHandlerError("no"), KeyError("no"), Failure("closed", "reject", detail="no")],
    ids=["terminal", "terminal for this handler", "returned"],
)
async def test_an_effect_is_undone_with_its_record(outbox: Outbox, problem: object) -> None:
    """E-056"""
    homing, calls = with_effects(outbox, problem)
    event_id = outbox.enqueue("a", "paid")
    async with homing:
        await work(homing)
        assert (effects(outbox), outbox.sql(HANDLED)) == (0, [])
        assert outbox.row(event_id)["status"] == "failed"
        outbox.replay(event_id, 0, "ann")
        await work(homing)

    assert (len(calls), effects(outbox)) == (2, 1)
    assert len(outbox.sql(HANDLED)) == 1


async def test_a_wrong_payload_leaves_no_record(outbox: Outbox) -> None:
    """E-017"""
    homing, calls = outbox.homing(), list[int]()

    async def book(event: Any, connection: object) -> None:
        calls.append(event.data)

    homing.on("paid", validate=lambda data: int(data["sum"]))(book)
    event_id = outbox.enqueue("a", "paid")
    outbox.sql("select core.outbox_enqueue('paid', '{\"sum\": \"many\"}', 'b')")
    outbox.sql("select core.outbox_enqueue('paid', '{\"sum\": \"7\"}', 'c')")
    async with homing:
        await work(homing)

    assert calls == [7]
    assert [row["idempotency_key"] for row in outbox.sql(HANDLED)] == ["c"]
    # A missing name is no ValueError.
    assert outbox.row(event_id)["status"] == "pending"
    failed = outbox.sql("select attempts from core.outbox where status = 'failed'")
    assert failed == [{"attempts": 1}]


async def test_a_connection_that_the_server_has_ended_costs_no_attempt(outbox: Outbox) -> None:
    homing, calls = with_effects(outbox)
    async with homing:
        outbox.enqueue("a", "paid")
        await work(homing)
        store = homing.store
        assert isinstance(store, PostgresStore)
        for connection in store._open.for_handlers._idle:
            outbox.sql("select pg_terminate_backend(%s)", connection.info.backend_pid)
        event_id = outbox.enqueue("b", "paid")
        await work(homing)

    assert len(calls) == 2
    assert (outbox.row(event_id)["status"], outbox.row(event_id)["attempts"]) == ("delivered", 1)


async def test_a_crash_after_the_commit_does_not_repeat_the_effect(outbox: Outbox) -> None:
    """E-056"""
    homing, calls = with_effects(outbox)
    event_id = outbox.enqueue("a", "paid")
    async with homing:
        # As a handler does it; then its process ends, before the outcome is saved.
        store = homing.store
        assert isinstance(store, PostgresStore)
        async with store.once(Fact("event_handled", f"{event_id}/book", 1, {"key": "a"})) as given:
            assert isinstance(given, psycopg.AsyncConnection)
            await given.execute("insert into effects values (%s)", (event_id,))
        await work(homing)

    assert (calls, effects(outbox)) == ([], 1)
    assert outbox.row(event_id)["status"] == "delivered"


APP = """\
import os, signal
from pathlib import Path
from homing import Homing

homing = Homing("{url}", worker=False)


@homing.on("paid")
async def book(event, connection):
    await connection.execute("insert into effects values (%s)", (event.id,))
    if not Path("died").exists():
        Path("died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_killed_before_the_commit_leaves_no_effect(outbox: Outbox, tmp_path: Path) -> None:
    """E-056, E-064"""
    outbox.sql("create table if not exists effects (event_id uuid)")
    (tmp_path / "shop.py").write_text(APP.format(url=outbox.url))
    event_id = outbox.enqueue("a", "paid")
    command = ["-m", "homing", "events", "worker", "--app", "shop"]
    with started(tmp_path, command) as worker:
        assert worker.process.wait(30) == -9
    assert (effects(outbox), outbox.row(event_id)["status"]) == (0, "in_flight")
    with started(tmp_path, command):
        until(lambda: outbox.row(event_id)["status"] == "delivered", what="the delivery")
    assert effects(outbox) == 1

"""An event with several handlers is one event wherever events are listed or counted.

Its own row says what its handlers met; their rows are details of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from homing import Event, Homing
from homing.cli.reading import counts
from homing.domain.errors import InvalidRequest, NotFound
from homing.engine.ops.caller import CallerOperations
from homing.mcp.tools import DeadLetterTools
from homing.observers.logs import LogObserver
from homing.runtime.app import use_as_worker
from homing.testing.clocks import ManualClock
from homing_systems.events import RetryPolicy, TerminalHandlerError, dead_letters
from homing_systems.events.route import as_outbox
from tests.conformance.events.outbox import Outbox, failing, work, work_until_failed
from tests.unit.web.conftest import OPEN, running

TWICE = RetryPolicy(max_attempts=2).retry
ERRORS = "book: TerminalHandlerError: no account; send: ConnectionError: mail is down"


def with_three_handlers(homing: Homing) -> Homing:
    """One works, one fails at once, one after two attempts."""
    homing.on("paid", name="count")(failing())
    homing.on("paid", name="book")(failing(TerminalHandlerError("no account")))
    homing.on("paid", name="send", retry=TWICE)(failing(*[ConnectionError("mail is down")] * 2))
    return homing


async def test_every_count_is_of_events(tmp_path: Path) -> None:
    clock = ManualClock()
    url = f"sqlite:///{tmp_path}/outbox.db"
    homing = with_three_handlers(Homing(url, worker=False, clock=clock, generation=0))
    async with running(OPEN, homing) as api:
        for key in "ab":
            await homing.submit(Event("paid"), key=key)
        await homing.submit(Event("unknown"), key="c")
        await work_until_failed(homing, clock, times=2)

        expected = {"failed": 1, "delivered": 1, "pending": 1}
        [events] = (await api.client.get("/api/v1/stats")).json()["routes"]
        assert events["states"] == expected
        assert len(await api.listed()) == 3
        page = (await api.client.get("/metrics")).text
        assert 'homing_deliveries{route="events",state="failed"} 1\n' in page
        assert 'homing_deliveries{route="events",state="delivered"} 1\n' in page
        stats = await DeadLetterTools(homing, allow_replay=False).stats()
        assert stats["deliveries_by_route_and_state"] == {"events": expected}
        assert {each.status: each.count for each in await counts(homing)} == expected
        listed = (await api.client.get("/deliveries")).text
        assert ">All <span>3</span>" in listed


async def test_the_row_of_the_event_says_what_its_handlers_met(
    outbox: Outbox, capsys: pytest.CaptureFixture[str]
) -> None:
    """E-029, E-046, E-053"""
    clock = ManualClock(outbox.now_ms() + 60_000)
    homing = with_three_handlers(outbox.homing(clock=clock))
    use_as_worker(homing, adapt=as_outbox, observers=[LogObserver("info", "text")])
    homing.use_without_worker()
    event_id = outbox.enqueue("k", "paid")
    first_failed_at_ms = clock.now_ms()
    async with homing:
        await work_until_failed(homing, clock, times=2)

        row = outbox.row(event_id)
        assert (row["status"], row["last_error"], row["attempts"]) == ("failed", ERRORS, 2)
        assert round(row["first_failed_at"].timestamp() * 1000) == first_failed_at_ms
        detail = await dead_letters.get_dlq_event_detail(homing, event_id)
        assert detail["event"]["last_error"] == ERRORS
        assert attempts(detail, "handler_name") == TRIED
        ops = CallerOperations.of(homing.ops, sees_personal_data=True)
        agent = await DeadLetterTools(homing, allow_replay=False).detail(ops, event_id)
        assert agent["event"]["last_error"] == ERRORS
        assert attempts(agent, "handler") == TRIED
        assert {attempt["ended_at"][-6:] for attempt in agent["attempts"]} == {"+00:00"}
        outbox.replay(event_id, 0, "ann")
        [cycle] = outbox.row(event_id)["failure_history"]
        assert (cycle["attempts"], cycle["last_error"]) == (2, ERRORS)
        assert outbox.row(event_id)["attempts"] == 0

    told = [line for line in capsys.readouterr().err.splitlines() if f"parent={event_id}" in line]
    names = sorted(line.partition("handler=")[2].split()[0] for line in told)
    assert names == ["book", "count", "send", "send"]


TRIED = [("book", "rejected"), ("count", "done"), ("send", "failed"), ("send", "failed")]


def attempts(detail: dict[str, Any], name: str) -> list[tuple[str, str]]:
    return sorted((attempt[name], attempt["status"]) for attempt in detail["attempts"])


async def test_many_failed_handlers_are_counted_and_the_first_named() -> None:
    homing = Homing("memory:", worker=False)
    for number in range(8):
        homing.on("paid", name=f"h{number}")(failing(TerminalHandlerError("no")))
    async with homing:
        ticket = await homing.submit(Event("paid"), key="k")
        await work(homing)
        failure = (await homing.ops.show(ticket.delivery_id)).failure

    assert failure is not None
    assert failure.detail.count("TerminalHandlerError: no") == 5
    assert failure.detail.endswith("; and 3 more")


async def test_rest_and_agents_state_no_earlier_generation(outbox: Outbox) -> None:
    """E-037"""
    homing = outbox.homing(generation=3)
    homing.on("paid")(failing(TerminalHandlerError("no")))
    event_id = outbox.enqueue("k", "paid", generation=3)
    async with running(OPEN, homing) as api:
        await work(homing)
        [shown] = await api.listed()
        assert shown["generation"] == 3
        asked = {"actor": "ann", "reason": "repaired", "generation": 2}
        path = f"/api/v1/deliveries/{event_id}/replay"
        refused = await api.client.post(path, json=asked)
        assert (refused.status_code, refused.json()["field"]) == (422, "generation")
        tools = DeadLetterTools(homing, allow_replay=True)
        ops = CallerOperations.of(homing.ops, sees_personal_data=True)
        with pytest.raises(InvalidRequest, match="of generation 3: state that one or a later"):
            await tools.replay(ops, event_id, "a", "b", 2)
        assert outbox.row(event_id)["status"] == "failed"
        done = await api.client.post(path, json={**asked, "generation": 4})
        assert (done.json()["state"], done.json()["generation"]) == ("pending", 4)
        with pytest.raises(NotFound, match="no event missing"):
            await dead_letters.get_dlq_event_detail(homing, "missing")

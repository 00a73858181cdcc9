"""What is not replayed, and which code a replayed event is for."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import msgspec
import psycopg
import pytest
from msgspec.structs import replace

from homing.domain.delivery import Change
from homing.domain.errors import InvalidRequest, NotAllowed
from homing.ports import Claim
from homing.testing.clocks import ManualClock
from homing_systems.events import FailureCycle, TerminalHandlerError
from homing_systems.events.route import replay as replay_by_python
from tests.conformance.events.outbox import (
    Outbox,
    adopt,
    contents,
    failed_event,
    failing,
    work,
)


async def test_only_a_failed_row_is_replayed_and_by_a_stated_generation(
    outbox: Outbox, server_clock: ManualClock
) -> None:
    """E-037, E-044"""
    failed = await failed_event(outbox, server_clock, generation=2)
    in_flight = await claimed_event(outbox, server_clock)
    pending, delivered, deleted = (
        str(
            outbox.value(
                "insert into core.outbox (event_type, payload, idempotency_key, status, deleted_at)"
                " values ('paid', '{}', %s, %s, %s) returning event_id",
                *given,
            )
        )
        for given in (
            ("a", "pending", None),
            ("b", "delivered", None),
            ("c", "failed", datetime.now(UTC)),
        )
    )
    async with outbox.homing(clock=server_clock) as homing:
        await adopt(homing)
    refused = {
        pending: "is pending",
        in_flight: "is in_flight",
        delivered: "is delivered",
        deleted: "is deleted",
        str(uuid4()): "there is no event",
    }

    before = contents(outbox)
    for event_id, problem in refused.items():
        with pytest.raises(psycopg.Error, match=problem):
            outbox.replay(event_id, 5)
    with pytest.raises(psycopg.errors.UndefinedFunction):
        outbox.sql("select core.outbox_replay(%s, 'ann')", failed)
    with pytest.raises(psycopg.Error, match="state the generation"):
        outbox.sql("select core.outbox_replay(%s, null, 'ann')", failed)
    async with outbox.homing() as homing:
        with pytest.raises(InvalidRequest, match="of generation 2: state that one or a later one"):
            await replay_by_python(homing.ops, failed, new_generation=1, replayed_by="ann")
        for event_id in (pending, in_flight, delivered, deleted):
            with pytest.raises(NotAllowed):
                await replay_by_python(homing.ops, event_id, new_generation=5, replayed_by="ann")
    assert contents(outbox)[:4] == before[:4]


async def test_sql_may_replay_for_an_earlier_generation(
    outbox: Outbox, server_clock: ManualClock
) -> None:
    """E-036, E-037"""
    event_id = await failed_event(outbox, server_clock, generation=2)
    outbox.replay(event_id, 1)
    homing, seen = outbox.homing(clock=server_clock, generation=1), list[str]()
    homing.on("void")(lambda event: seen.append(event.id))
    async with homing:
        await work(homing)
    assert seen == [event_id]
    assert (outbox.row(event_id)["status"], outbox.row(event_id)["generation"]) == ("delivered", 1)


async def claimed_event(outbox: Outbox, server_clock: ManualClock) -> str:
    """A worker has it."""
    event_id = outbox.enqueue("held", "held")
    now_ms = server_clock.now_ms()
    claim = Claim(
        worker="w", now_ms=now_ms, lease_until_ms=now_ms + 60_000, limit=1, queues=("events/held",)
    )
    async with outbox.homing(clock=server_clock) as homing:
        await adopt(homing)
        [claimed] = await homing.store.claim(claim)
    assert (claimed.delivery.id, outbox.row(event_id)["status"]) == (event_id, "in_flight")
    return event_id


@pytest.mark.parametrize("who", ["ann@example.org", "sql-direct"])
async def test_the_history_stands_on_the_row_with_who_replayed(
    outbox: Outbox, server_clock: ManualClock, who: str
) -> None:
    """E-040, E-041, E-042"""
    event_id = await failed_event(outbox, server_clock)
    rows = outbox.value("select count(*) from core.outbox")

    outbox.replay(event_id, 0, who)

    [entry] = outbox.row(event_id)["failure_history"]
    cycle = msgspec.convert(entry, FailureCycle)
    assert set(entry) == set(FailureCycle.__struct_fields__)
    assert (cycle.cycle, cycle.attempts, cycle.replayed_by) == (1, 1, who)
    assert cycle.last_error == "TerminalHandlerError: no such invoice"
    assert None not in (cycle.first_failed_at, cycle.failed_at)
    assert outbox.value("select count(*) from core.outbox") == rows


async def test_a_generation_is_left_to_its_own_code(
    outbox: Outbox, server_clock: ManualClock
) -> None:
    """E-036, E-038"""
    event_id = await failed_event(outbox, server_clock, generation=3)
    homing, seen = outbox.homing(clock=server_clock, generation=4), list[str]()
    homing.on("void")(lambda event: seen.append(event.id))

    async with homing:
        outbox.replay(event_id, 3)
        server_clock.advance(10_000_000)
        await work(homing)
        assert seen == []
    await fail_again_in(outbox, server_clock, generation=3)
    outbox.replay(event_id, 4)
    homing = outbox.homing(clock=server_clock, generation=4)
    homing.on("void")(lambda event: seen.append(event.id))
    async with homing:
        server_clock.advance(10_000_000)
        await work(homing)
    assert seen == [event_id]


async def fail_again_in(outbox: Outbox, server_clock: ManualClock, generation: int) -> None:
    homing = outbox.homing(clock=server_clock, generation=generation)
    homing.on("void")(failing(TerminalHandlerError("old code")))
    async with homing:
        await work(homing)


async def test_a_thousand_replays_and_what_they_take(
    outbox: Outbox, server_clock: ManualClock
) -> None:
    """E-061"""
    event_id = await failed_event(outbox, server_clock)
    outbox.replay(event_id)
    async with outbox.homing(clock=server_clock) as homing:
        await adopt(homing)
        stored = await homing.ops.show(event_id)
        many = replace(stored, failure_history=stored.failure_history * 999)
        assert await homing.store.save([Change(many)]) == [True]
    server_clock.advance(100_000_000)
    homing = outbox.homing(clock=server_clock)
    homing.on("void")(failing(TerminalHandlerError("again")))
    async with homing:
        await work(homing)
    outbox.replay(event_id)

    [size] = outbox.sql("select * from core.outbox_failure_history_size")
    assert (str(size["event_id"]), size["entries"]) == (event_id, 1000)
    assert size["bytes"] > 100_000
    assert len(outbox.row(event_id)["failure_history"]) == 1000

"""`core.outbox_replay`: one step, in place, with the finished cycle kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from msgspec.structs import asdict

from homing import Homing
from homing.domain.delivery import Delivery
from homing.ports import Query
from homing.testing.clocks import ManualClock
from homing_systems.events import TerminalHandlerError
from homing_systems.events.route import replay
from tests.conformance.events.outbox import (
    Outbox,
    adopt,
    contents,
    failed_event,
    failing,
    plain,
    work,
)


@pytest.mark.parametrize("kind", ["void", "two"])
async def test_the_function_and_the_transition_give_the_same_rows(
    outbox: Outbox, server_clock: ManualClock, kind: str
) -> None:
    """E-032, E-034, E-039"""
    by_sql = await failed_event(outbox, server_clock, kind, generation=2)
    by_python = await failed_event(outbox, server_clock, kind, generation=2)
    for _ in range(2):
        async with outbox.homing(clock=server_clock, generation=2) as homing:
            outbox.replay(by_sql, 2, "ann@example.org")
            by_sql_alone = outbox.row(by_sql)
            await adopt(homing)
            assert same(outbox.row(by_sql)) == same(by_sql_alone)
            await replay(homing.ops, by_python, new_generation=2, replayed_by="ann@example.org")
            sql, python = [
                [plain(each) for each in await family(homing, event_id)]
                for event_id in (by_sql, by_python)
            ]
            for one, other in zip(sql, python, strict=True):
                assert asdict(one) == asdict(other)
            assert {each.state for each in sql} <= {"pending", "delivered"}
        await fail_again(outbox, server_clock)


def same(row: dict[str, Any]) -> dict[str, Any]:
    """Without the time of the last replay: that of the worker counts."""
    del row["failure_history"][-1]["replayed_at"]
    return row


async def family(homing: Homing, event_id: str) -> list[Delivery]:
    children = (await homing.store.page(Query(parent_id=event_id))).items
    return [
        await homing.ops.show(event_id),
        *sorted(children, key=lambda child: child.metadata["handler"]),
    ]


async def fail_again(outbox: Outbox, server_clock: ManualClock) -> None:
    homing = outbox.homing(clock=server_clock, generation=2)
    homing.on("void", name="void")(failing(*[TerminalHandlerError("again")] * 9))
    homing.on("two", name="first")(failing())
    homing.on("two", name="second")(failing(*[TerminalHandlerError("again")] * 9))
    async with homing:
        server_clock.advance(10_000)
        await work(homing)


async def test_a_replay_by_sql_is_one_step(outbox: Outbox, server_clock: ManualClock) -> None:
    """E-033, E-035, E-036"""
    event_id = await failed_event(outbox, server_clock, generation=3)
    before = outbox.row(event_id)
    with outbox.undone():
        outbox.replay(event_id, 4)
        assert outbox.row(event_id)["status"] == "pending"
    assert outbox.row(event_id) == before

    outbox.replay(event_id, 4)

    after = outbox.row(event_id)
    cycle = ("attempts", "last_error", "first_failed_at", "status", "generation")
    assert [before[name] for name in cycle[:2]] == [1, "TerminalHandlerError: no such invoice"]
    assert [after[name] for name in cycle] == [0, None, None, "pending", 4]
    same = ("event_id", "idempotency_key", "payload", "created_at")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}


@pytest.mark.parametrize("kind", ["void", "two"])
async def test_a_replay_that_fails_half_way_changes_nothing(
    outbox: Outbox, server_clock: ManualClock, kind: str
) -> None:
    """E-033"""
    event_id = await failed_event(outbox, server_clock, kind)
    before = contents(outbox)
    # The last step marks the row.
    outbox.sql(
        "create function refuse() returns trigger language plpgsql as"
        f" $$begin if new.key like '%%{event_id}' then raise 'refused'; end if; return new; end$$"
    )
    outbox.sql(
        "create trigger refuse before insert on homing_facts for each row execute function refuse()"
    )
    try:
        with pytest.raises(psycopg.errors.RaiseException, match="refused"):
            outbox.replay(event_id, 1)
    finally:
        outbox.sql("drop trigger refuse on homing_facts")
        outbox.sql("drop function refuse()")

    assert contents(outbox) == before
    outbox.replay(event_id, 1)
    assert outbox.row(event_id)["status"] == "pending"


async def test_a_handler_sees_the_same_identity_after_a_replay(
    outbox: Outbox, server_clock: ManualClock
) -> None:
    """E-043"""
    homing, seen = outbox.homing(clock=server_clock), list[tuple[str, str]]()

    @homing.on("paid")
    async def book(event: Any) -> None:
        seen.append((event.id, event.key))
        if len(seen) == 1:
            raise TerminalHandlerError("not yet")

    async with homing:
        event_id = outbox.enqueue("k", "paid")
        await work(homing)
        outbox.replay(event_id, 0)
        await work(homing)

    assert seen == [(event_id, "k")] * 2
    assert outbox.row(event_id)["idempotency_key"] == "k"


async def test_a_wait_survives_the_end_of_the_process(
    outbox: Outbox, server_clock: ManualClock
) -> None:
    """E-065"""
    event_id = outbox.enqueue("k", "paid")
    homing = outbox.homing(clock=server_clock)
    homing.on("paid")(failing(ConnectionError("refused")))
    async with homing:
        await work(homing)
        due_at_ms = (await homing.ops.show(event_id)).due_at_ms
    assert due_at_ms is not None

    homing, seen = outbox.homing(clock=server_clock), list[int]()
    homing.on("paid")(lambda event: seen.append(server_clock.now_ms()))
    async with homing:
        server_clock.advance((due_at_ms - server_clock.now_ms() - 1) / 1000)
        await work(homing)
        assert seen == []
        server_clock.advance(0.001)
        await work(homing)
    assert seen == [due_at_ms]


async def test_a_replay_adds_no_row_and_needs_no_log(
    outbox: Outbox, server_clock: ManualClock
) -> None:
    """E-006, E-059, E-060"""
    event_id = await failed_event(outbox, server_clock)
    outbox.replay(event_id)
    outbox.sql("truncate homing_attempts")
    outbox.sql("delete from homing_facts where kind = 'audit'")

    assert outbox.value("select count(*) from core.outbox") == 1
    assert outbox.row(event_id)["failure_history"][0]["attempts"] == 1


async def test_two_replays_at_the_same_moment_give_one_cycle(
    outbox: Outbox, server_clock: ManualClock
) -> None:
    """E-045"""
    event_id = await failed_event(outbox, server_clock)

    def replay_once(who: str) -> bool:
        with psycopg.connect(outbox.url) as connection:
            try:
                connection.execute("select core.outbox_replay(%s, 0, %s)", (event_id, who))
            except psycopg.errors.ObjectNotInPrerequisiteState:
                return False
            return True

    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(replay_once, "abcd"))

    assert sorted(done) == [False, False, False, True]
    assert len(outbox.row(event_id)["failure_history"]) == 1

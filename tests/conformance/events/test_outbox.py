"""`core.outbox` in PostgreSQL: its columns, what it shows, and what can be changed."""

from __future__ import annotations

import psycopg
import pytest

from homing import Event, Homing
from homing.runtime.app import use_as_worker
from homing.stores.layout import Stored
from homing.testing.clocks import ManualClock
from homing_systems.events import TerminalHandlerError
from homing_systems.events.record import LAYOUT
from homing_systems.events.route import as_outbox, replay
from tests.conformance.events.outbox import (
    Bell,
    Outbox,
    adopt,
    as_layout,
    failed_event,
    failing,
    work,
    work_until_failed,
)


async def stored(homing: Homing, event_id: str) -> Stored:
    content = await homing.store.content(event_id)
    assert content is not None
    return Stored(await homing.ops.show(event_id), content, ())


def test_the_columns_and_their_defaults(outbox: Outbox) -> None:
    """E-027, E-028, E-029"""
    found = outbox.sql(
        "select column_name, data_type, column_default from information_schema.columns"
        " where table_schema = 'core' and table_name = 'outbox'"
    )
    types = {row["column_name"]: row["data_type"] for row in found}
    defaults = {row["column_name"]: row["column_default"] for row in found}

    assert set(types) == set(LAYOUT.fields)
    assert (types["failure_history"], types["attempts"]) == ("jsonb", "integer")
    assert (types["last_error"], types["first_failed_at"]) == ("text", "timestamp with time zone")
    assert defaults["attempts"] == "0"
    assert defaults["failure_history"] == "'[]'::jsonb"
    row = outbox.row(outbox.enqueue())
    assert (row["failure_history"], row["attempts"], row["last_error"]) == ([], 0, None)


def test_there_is_no_table_of_dead_letters(outbox: Outbox) -> None:
    """E-004, E-057"""
    found = outbox.sql(
        "select relname, relkind::text from pg_class"
        " where relnamespace = 'core'::regnamespace and relkind in ('r', 'v', 'm')"
    )

    assert {row["relname"]: row["relkind"] for row in found} == {
        "outbox": "r",
        "event_handled": "v",
        "outbox_failure_history_size": "v",
    }


async def test_only_four_words_are_stored(outbox: Outbox) -> None:
    """E-001"""
    insert = (
        "insert into core.outbox (event_type, payload, idempotency_key, status)"
        " values ('paid', '{}', %s, %s)"
    )
    for number, word in enumerate(("pending", "in_flight", "delivered", "failed")):
        outbox.sql(insert, str(number), word)
    with pytest.raises(psycopg.errors.CheckViolation, match="outbox_status_check"):
        outbox.sql(insert, "5", "sent")

    async with outbox.homing() as homing:
        await adopt(homing)
    words = outbox.sql("select status from core.outbox order by idempotency_key")
    # What another program was trying waits for its first attempt here.
    assert [row["status"] for row in words] == ["pending", "pending", "delivered", "failed"]


def test_a_plain_insert_returns_the_row(outbox: Outbox) -> None:
    """E-027"""
    [returned] = outbox.sql(
        "insert into core.outbox (event_type, payload, idempotency_key)"
        " values ('paid', '[1]', 'k') returning *"
    )

    assert returned == outbox.row(returned["event_id"])


async def test_the_table_shows_what_the_layout_says(
    outbox: Outbox, server_clock: ManualClock
) -> None:
    """E-005, E-030, E-058"""
    homing = outbox.homing(clock=server_clock)
    homing.on("good")(failing(ConnectionError("one")))
    homing.on("bad")(failing(*[ConnectionError(str(number)) for number in range(9)]))
    homing.on("void")(failing(TerminalHandlerError("no"), TerminalHandlerError("no")))
    homing.on("two", name="first")(failing())
    homing.on("two", name="second")(failing(TerminalHandlerError("no")))
    use_as_worker(homing, adapt=as_outbox)
    homing.use_without_worker()

    async with homing:
        tickets = [
            await homing.submit(
                Event(kind, {"é": [1, 2.5, None]}), key=key, metadata={"target": "t"}
            )
            for kind, key in (
                ("good", "a"),
                ("bad", "b"),
                ("void", "c"),
                ("two", "d"),
                ("void", "e"),
            )
        ]
        tickets.append(await homing.submit(Event("nobody"), key="f", source="shop"))
        ids = [ticket.delivery_id for ticket in tickets]
        await work(homing)
        seen = [as_layout(outbox.row(event_id)) for event_id in ids]
        assert seen == [LAYOUT.record(await stored(homing, event_id)) for event_id in ids]
        first_failed_at = seen[1]["first_failed_at"]
        await work_until_failed(homing, server_clock)
        await replay(homing.ops, ids[2], new_generation=0, replayed_by="ann")
        await homing.ops.dismiss(ids[4], actor="ann", reason="known")
        seen = [as_layout(outbox.row(event_id)) for event_id in ids]
        assert seen == [LAYOUT.record(await stored(homing, event_id)) for event_id in ids]

    words = ["delivered", "failed", "pending", "failed", "failed", "pending"]
    assert [row["status"] for row in seen] == words
    assert (seen[1]["attempts"], seen[1]["failure_history"]) == (5, [])
    assert seen[1]["first_failed_at"] == first_failed_at is not None
    dead = outbox.sql(
        "select event_id from core.outbox where status = 'failed' and deleted_at is null"
    )
    assert {str(row["event_id"]) for row in dead} == {ids[1], ids[3]}
    assert outbox.value("select count(*) from core.outbox") == len(ids)


async def test_setting_deleted_at_dismisses(outbox: Outbox, server_clock: ManualClock) -> None:
    """E-005, E-046"""
    event_id = await failed_event(outbox, server_clock)
    async with outbox.homing(clock=server_clock) as homing:
        outbox.sql("update core.outbox set deleted_at = now() where event_id = %s", event_id)
        await adopt(homing)
        assert (await homing.ops.show(event_id)).state == "dismissed"
        assert (
            outbox.sql("select * from core.outbox where status = 'failed' and deleted_at is null")
            == []
        )
        outbox.sql("update core.outbox set deleted_at = null where event_id = %s", event_id)
        await adopt(homing)
        assert (await homing.ops.show(event_id)).state == "failed"
        [*_, audit] = await homing.store.facts("audit", event_id)
        assert (audit.value or {})["actor"] == outbox.value("select session_user::text")


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("update core.outbox set deleted_at = now()", "deleted_at: the event is pending"),
        ("update core.outbox set status = 'failed'", "status: an event that is pending"),
        ("update core.outbox set target = 'x'", "target of a stored event does not change"),
        ("update core.outbox set failure_history = '[1, 2]'", "core.outbox_replay adds one entry"),
        ("delete from core.outbox", "rows are not deleted"),
    ],
)
async def test_a_change_that_means_nothing_is_told_and_undone(
    outbox: Outbox, statement: str, problem: str
) -> None:
    """E-001, E-005"""
    bell = Bell()
    async with outbox.homing(alarm=bell) as homing:
        event_id = outbox.enqueue("pending")
        await adopt(homing)
        before = outbox.row(event_id)
        outbox.sql(statement)
        await adopt(homing)

        assert outbox.row(event_id) == before
        [alert] = bell.alerts
        assert problem in alert.text
        [fact] = await homing.store.facts("refused_row")
        assert fact.key == f"core.outbox/{event_id}"
        await adopt(homing)
        assert len(bell.alerts) == 1


async def test_a_payload_and_attempts_that_others_change_are_written_again(outbox: Outbox) -> None:
    async with outbox.homing() as homing:
        event_id = outbox.enqueue("pending")
        await adopt(homing)
        before = outbox.row(event_id)
        outbox.sql("update core.outbox set payload = '{}', attempts = 7")
        await adopt(homing)
        assert outbox.row(event_id) == before


async def test_one_that_was_deleted_unhandled_is_a_dead_letter_once_that_is_taken_back(
    outbox: Outbox,
) -> None:
    """E-005, E-046"""
    homing, seen = outbox.homing(), list[str]()
    homing.on("invoice.paid")(lambda event: seen.append(event.key))
    insert = (
        "insert into core.outbox (event_type, payload, idempotency_key, deleted_at)"
        " values ('invoice.paid', '{}', 'adopted', now()) returning event_id"
    )
    adopted, cancelled = outbox.value(insert), outbox.enqueue("cancelled")
    async with homing:
        await adopt(homing)
        await homing.ops.cancel(cancelled, actor="ann", reason="not needed")
        await work(homing)
        assert seen == []
        for event_id in (str(adopted), cancelled):
            outbox.sql("update core.outbox set deleted_at = null where event_id = %s", event_id)
            await adopt(homing)
            found = await homing.ops.show(event_id)
            assert (found.state, found.failed_because) == ("failed", "rejected")
            outbox.replay(event_id)
        await work(homing)
    assert sorted(seen) == ["adopted", "cancelled"]

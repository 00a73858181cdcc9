"""`core.outbox` is a table: what its owner and other programs do with a table works on it."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from homing import Event, Homing
from homing.stores.sql.postgres import PostgresStore
from homing_systems.events import TerminalHandlerError
from tests.conformance.events.outbox import Bell, Outbox, adopt, failing, work

INSERT = (
    "insert into core.outbox (event_type, payload, idempotency_key, source)"
    " values ('paid', '{}', 'k', 'shop')"
)
CYCLE = {
    "cycle": 1,
    "attempts": 5,
    "last_error": "ledger is down",
    "first_failed_at": "2026-03-01T10:00:00.000Z",
    "failed_at": None,
    "generation": 0,
    "replayed_at": "2026-03-02T10:00:00.000Z",
    "replayed_by": "ann",
}


async def test_an_insert_may_do_nothing_on_conflict(outbox: Outbox) -> None:
    """E-002"""
    outbox.sql(INSERT)
    outbox.sql(f"{INSERT} on conflict (source, idempotency_key) do nothing")
    homing, seen = outbox.homing(), list[str]()
    homing.on("paid")(lambda event: seen.append(event.key))
    async with homing:
        await work(homing)
        outbox.sql(f"{INSERT} on conflict (source, idempotency_key) do nothing")
        await work(homing)
    assert seen == ["k"]
    assert outbox.sql("select status from core.outbox") == [{"status": "delivered"}]


async def test_other_tables_may_refer_to_it_and_it_may_have_columns_of_its_owner(
    outbox: Outbox,
) -> None:
    """E-006"""
    homing, seen = outbox.homing(), list[str]()
    homing.on("paid")(lambda event: seen.append(event.key))
    outbox.sql("alter table core.outbox add column tenant text default 'acme'")
    outbox.sql("create table letters (event_id uuid references core.outbox (event_id))")
    try:
        event_id = outbox.value(f"{INSERT} returning event_id")
        outbox.sql("insert into letters values (%s)", event_id)
        outbox.sql("update core.outbox set tenant = 'globex' where event_id = %s", event_id)
        async with homing:
            await work(homing)
            ticket = await homing.submit(Event("paid"), key="python")
            await work(homing)
        outbox.sql("insert into letters values (%s)", ticket.delivery_id)
        assert seen == ["k", "python"]
        row = outbox.row(event_id)
        assert (row["status"], row["tenant"]) == ("delivered", "globex")
        assert outbox.row(ticket.delivery_id)["tenant"] == "acme"
    finally:
        outbox.sql("drop table letters")
        outbox.sql("alter table core.outbox drop column tenant")


async def test_a_table_with_a_view_and_a_key_on_it_is_adopted_with_its_history(
    empty_database: str,
) -> None:
    """E-028, E-029, E-031"""
    event_id = uuid4()
    with psycopg.connect(empty_database, autocommit=True) as connection:
        old = Outbox(empty_database, connection)
        connection.execute(
            """
            create schema core;
            create table core.outbox (
                event_id uuid primary key, event_type text not null, payload jsonb not null,
                idempotency_key text not null, source text not null, target text,
                status text not null, generation bigint not null default 0,
                created_at timestamptz not null default now(), deleted_at timestamptz,
                failure_history jsonb not null default '[]', attempts integer not null default 0,
                last_error text, first_failed_at timestamptz, tenant text
            );
            create view core.open_events as select * from core.outbox where status = 'pending';
            create table letters (event_id uuid references core.outbox (event_id))
            """
        )
        old.sql(
            "insert into core.outbox values (%s, 'paid', '{}', 'k', 'shop', null, 'failed', 3,"
            " now(), null, %s, 4, 'no such account', '2026-03-03T10:00:00Z', 'acme')",
            event_id,
            json.dumps([CYCLE]),
        )
        old.sql("insert into letters values (%s)", event_id)
        before = old.row(event_id)
        store = PostgresStore(empty_database)
        store.add_sql_files("events", "homing_systems.events.postgres")
        await store.open()
        await store.close()

        async with old.homing() as homing:
            await adopt(homing)
            stored = await homing.ops.show(str(event_id))
            assert (stored.state, stored.attempts_spent, stored.generation) == ("failed", 4, 3)
            assert stored.failure is not None
            assert stored.failure.detail == "no such account"
            [cycle] = stored.failure_history
            assert (cycle.last_error, cycle.replayed_by) == ("ledger is down", "ann")
        after = old.row(event_id)
        assert after.pop("created_at").timestamp() == pytest.approx(
            before.pop("created_at").timestamp(), abs=0.001
        )
        assert after == before
        assert old.sql("select * from core.open_events") == []


async def test_the_row_is_written_in_the_transaction_of_the_caller(outbox: Outbox) -> None:
    """E-006"""
    async with outbox.homing() as homing:
        with outbox.undone():
            ticket = await homing.submit(Event("paid"), key="k", within=outbox.connection)
            assert outbox.row(ticket.delivery_id)["status"] == "pending"
            # What the caller then writes itself is adopted.
            outbox.sql(INSERT)
            assert marks(outbox) == 1
        assert outbox.sql("select * from core.outbox") == []
        with outbox.connection.transaction():
            await homing.submit(Event("paid"), key="k", within=outbox.connection)
    assert (outbox.value("select count(*) from core.outbox"), marks(outbox)) == (1, 0)


async def test_what_homing_writes_is_not_marked(outbox: Outbox) -> None:
    homing = outbox.homing()
    homing.on("paid")(failing(TerminalHandlerError("no")))
    async with homing:
        ticket = await homing.submit(Event("paid"), key="k")
        await work(homing)
        await homing.ops.replay(ticket.delivery_id, actor="ann", reason="repaired")
        await work(homing)
    assert outbox.row(ticket.delivery_id)["status"] == "delivered"
    assert marks(outbox) == 0


async def test_a_row_that_changes_while_it_is_adopted_is_adopted_again(outbox: Outbox) -> None:
    async with outbox.homing() as homing:
        store = homing.store
        assert isinstance(store, PostgresStore)
        outbox.sql(INSERT)
        seen = await store.foreign_rows("core.outbox", 10)
        outbox.sql("update core.outbox set target = 'ledger'")
        await store.settle_rows("core.outbox", seen, [])
        assert marks(outbox) == 1
        await adopt(homing)
        [delivery] = (await homing.ops.list()).items
        assert (delivery.metadata, marks(outbox)) == ({"target": "ledger"}, 0)


async def test_an_event_of_a_process_without_the_layout_has_a_row_once_it_is_claimed(
    outbox: Outbox,
) -> None:
    async with Homing(outbox.url, worker=False) as other:
        ticket = await other.submit(Event("paid", {"n": 1}), key="k")
    assert outbox.sql("select * from core.outbox") == []
    homing = outbox.homing()
    homing.on("paid")(failing())
    async with homing:
        await work(homing)
    row = outbox.row(ticket.delivery_id)
    assert (row["status"], row["payload"], row["attempts"]) == ("delivered", {"n": 1}, 1)


async def test_a_row_whose_key_was_taken_meanwhile_gives_way(outbox: Outbox) -> None:
    """E-002"""
    bell, seen = Bell(), list[Any]()
    homing = outbox.homing(alarm=bell)
    homing.on("paid")(lambda event: seen.append(event.id))
    async with homing:
        given = outbox.value(f"{INSERT} returning event_id")
        ticket = await homing.submit(Event("paid", {}), key="k", source="shop")
        await work(homing)
    assert seen == [ticket.delivery_id]
    assert [str(row["event_id"]) for row in outbox.sql("select * from core.outbox")] == seen
    [alert] = bell.alerts
    assert f"its key belongs to {ticket.delivery_id} ({given})" in alert.text


async def test_a_row_whose_key_belongs_to_another_event_stays(outbox: Outbox) -> None:
    """E-002"""
    bell = Bell()
    async with outbox.homing(alarm=bell) as homing:
        given = outbox.value(f"{INSERT} returning event_id")
        await homing.submit(Event("paid", {"other": True}), key="k", source="shop")
        await work(homing)
    assert (outbox.row(given)["payload"], len(bell.alerts)) == ({}, 1)


def marks(outbox: Outbox) -> int:
    return int(outbox.value("select count(*) from homing_facts where kind = 'foreign_row'"))

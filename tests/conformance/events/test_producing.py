"""Events that SQL writes into the outbox: by function or plain insert, in its own transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from msgspec.structs import replace

from homing import Event, IdempotencyConflict
from homing.domain.errors import InvalidRequest
from homing.runtime.app import use_as_worker
from homing_systems.events import TerminalHandlerError
from tests.conformance.events.outbox import (
    Bell,
    Outbox,
    adopt,
    work,
)


async def test_an_event_written_in_sql_is_handled_and_its_key_is_one_for_all(
    outbox: Outbox,
) -> None:
    """E-002, E-043"""
    homing, seen = outbox.homing(), list[Any]()

    @homing.on("invoice.paid")
    async def book(event: Any) -> None:
        seen.append((event.id, event.key, event.source, event.data, event.metadata))

    first = outbox.enqueue("k", source="shop", target="ledger")
    assert outbox.enqueue("k", source="shop") == first
    with pytest.raises(psycopg.errors.UniqueViolation, match="idempotency_key 'k'") as refused:
        outbox.sql("select core.outbox_enqueue('invoice.paid', '{\"n\": 2}', 'k', 'shop')")
    assert refused.value.sqlstate == "23505"
    async with homing:
        await adopt(homing)
        again = await homing.submit(Event("invoice.paid", {"n": 1.0}), key="k", source="shop")
        with pytest.raises(IdempotencyConflict):
            await homing.submit(Event("invoice.paid", {"n": 3}), key="k", source="shop")
        await work(homing)

    assert (again.delivery_id, again.created) == (first, False)
    assert seen == [(first, "k", "shop", {"n": 1}, {"target": "ledger"})]
    assert outbox.row(first)["status"] == "delivered"


async def test_a_plain_insert_does_what_the_function_does(outbox: Outbox) -> None:
    """E-001, E-046"""
    homing, seen = outbox.homing(generation=2), list[Any]()
    homing.on("paid")(lambda event: seen.append(event.data))
    given = str(uuid4())
    insert = (
        "insert into core.outbox (event_id, event_type, payload, idempotency_key, source,"
        " generation) values (%s, 'paid', '[1]', 'k', 'shop', 2) returning event_id"
    )

    assert str(outbox.value(insert, given)) == given
    with pytest.raises(psycopg.errors.UniqueViolation):
        outbox.sql(insert, uuid4())
    async with homing:
        await work(homing)

    assert seen == [[1]]
    assert outbox.sql("select status, generation from core.outbox") == [
        {"status": "delivered", "generation": 2}
    ]


async def test_the_business_row_and_the_event_commit_together(outbox: Outbox) -> None:
    """E-006"""
    outbox.sql("create table if not exists invoices (number integer)")
    with outbox.undone():
        outbox.sql("insert into invoices values (1)")
        outbox.enqueue("lost")
    with outbox.connection.transaction():
        outbox.sql("insert into invoices values (2)")
        kept = outbox.enqueue("kept")

    assert outbox.value("select count(*) from invoices") == 1
    assert [str(row["event_id"]) for row in outbox.sql("select * from core.outbox")] == [kept]


@pytest.mark.parametrize("is_kept", [True, False])
async def test_two_producers_of_one_key_make_one_event(outbox: Outbox, *, is_kept: bool) -> None:
    """E-002"""
    with psycopg.connect(outbox.url) as other:
        [first] = other.execute("select core.outbox_enqueue('paid', '[1]', 'k')").fetchone() or ()
        second = asyncio.ensure_future(
            asyncio.to_thread(outbox.value, "select core.outbox_enqueue('paid', '[1]', 'k')")
        )
        waiting = "select 1 from pg_locks where not granted"
        async with asyncio.timeout(20):
            while not other.execute(waiting).fetchall():  # noqa: ASYNC110 - no event for it
                await asyncio.sleep(0.01)
        if is_kept:
            other.commit()
        else:
            other.rollback()
        assert (await second == first) is is_kept
    assert len(outbox.sql("select * from core.outbox")) == 1


INSERT = (
    "insert into core.outbox (event_type, payload, idempotency_key, source, target)"
    " values (%s, '{}', %s, %s, %s) returning event_id"
)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("event_type", ("", "x" * 513)),
        ("idempotency_key", ("", "x" * 513)),
        ("source", ("x" * 513,)),
        ("target", ("x" * 9000,)),
    ],
)
async def test_a_row_that_python_refuses_stays_and_is_told(
    outbox: Outbox, field: str, values: tuple[str, ...]
) -> None:
    """E-002"""
    good = {"event_type": "paid", "idempotency_key": "k", "source": "shop", "target": "ledger"}
    bell = Bell()
    async with outbox.homing(alarm=bell) as homing:
        for number, value in enumerate(values):
            given = {**good, "source": f"shop-{number}", field: value}
            event_id = outbox.value(INSERT, *given.values())
            await work(homing)
            assert f"({event_id})" in bell.alerts.pop().text
            [fact] = await homing.store.facts("refused_row", f"core.outbox/{event_id}")
            assert str((fact.value or {})["problem"])
            assert (outbox.row(event_id)["status"], await homing.store.get(str(event_id))) == (
                "pending",
                None,
            )
            with pytest.raises(InvalidRequest):
                await homing.submit(
                    Event(given["event_type"]),
                    key=given["idempotency_key"],
                    source=given["source"],
                    metadata={"target": given["target"]},
                )


async def test_a_generation_is_a_bigint_everywhere(outbox: Outbox) -> None:
    """E-036, E-038"""
    largest = 2**63 - 1
    homing, seen = outbox.homing(generation=largest), list[str]()
    homing.on("paid")(lambda event: seen.append(event.key))
    outbox.enqueue("sql", "paid", generation=largest)
    async with homing:
        await homing.submit(Event("paid"), key="python", generation=largest)
        await work(homing)

    assert sorted(seen) == ["python", "sql"]
    assert outbox.sql("select distinct generation from core.outbox") == [{"generation": largest}]
    for wrong in (-1, largest + 1, "2", True):
        with pytest.raises(InvalidRequest, match="generation"):
            outbox.homing(generation=wrong)


def test_the_functions_have_the_promised_arguments(outbox: Outbox) -> None:
    """E-032, E-037"""
    found = outbox.sql(
        "select proname, pg_get_function_arguments(oid) as given,"
        " pg_get_function_result(oid) as returned from pg_proc"
        " where proname in ('outbox_enqueue', 'outbox_replay') order by proname"
    )

    enqueue = (
        "p_event_type text, p_payload jsonb, p_idempotency_key text,"
        " p_source text DEFAULT 'sql'::text, p_target text DEFAULT NULL::text,"
        " p_generation bigint DEFAULT 0"
    )
    replaying = "event_id uuid, p_new_generation bigint, p_replayed_by text"
    assert [tuple(row.values()) for row in found] == [
        ("outbox_enqueue", enqueue, "uuid"),
        ("outbox_replay", replaying, "void"),
    ]


@pytest.mark.parametrize(("is_mute", "poll_s"), [(False, 3600), (True, 0.2)])
async def test_an_event_wakes_a_worker_and_is_found_without_that(
    outbox: Outbox, *, is_mute: bool, poll_s: float
) -> None:
    """E-003"""
    homing = outbox.homing(worker=True)
    seen: asyncio.Queue[str] = asyncio.Queue()
    homing.on("invoice.paid")(lambda event: seen.put_nowait(event.key))
    use_as_worker(homing, adapt=lambda route: replace(route, poll_s=poll_s))

    async with homing, asyncio.timeout(20):
        # After the first one the worker has nothing to do, and waits.
        await asyncio.to_thread(outbox.enqueue, "first")
        assert await seen.get() == "first"
        with mute(outbox) if is_mute else nullcontext():
            await asyncio.to_thread(outbox.enqueue, "second")
        assert await seen.get() == "second"


async def test_a_replay_by_sql_wakes_a_worker(outbox: Outbox) -> None:
    """E-003, E-039"""
    homing = outbox.homing(worker=True)
    seen: asyncio.Queue[str] = asyncio.Queue()

    @homing.on("invoice.paid")
    async def book(event: Any) -> None:
        seen.put_nowait(event.id)
        raise TerminalHandlerError("no")

    use_as_worker(homing, adapt=lambda route: replace(route, poll_s=3600))
    async with homing, asyncio.timeout(20):
        event_id = await asyncio.to_thread(outbox.enqueue)
        assert await seen.get() == event_id
        while outbox.row(event_id)["status"] != "failed":  # noqa: ASYNC110 - no event for it
            await asyncio.sleep(0.01)
        await asyncio.to_thread(outbox.replay, event_id)
        assert await seen.get() == event_id


@contextmanager
def mute(outbox: Outbox) -> Iterator[None]:
    """The server's `pg_notify` is hidden by one that does nothing."""
    outbox.sql("create schema mute")
    outbox.sql("create function mute.pg_notify(text, text) returns void language sql as ''")
    outbox.sql("alter function core.outbox_mark set search_path = mute, pg_catalog, pg_temp")
    try:
        yield
    finally:
        outbox.sql("alter function core.outbox_mark set search_path = pg_catalog, pg_temp")
        outbox.sql("drop schema mute cascade")

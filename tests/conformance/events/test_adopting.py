"""A table `core.outbox` from elsewhere is adopted, with its rows."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

import psycopg
import pytest

from homing.stores.sql.postgres import PostgresStore
from tests.conformance.events.outbox import (
    Outbox,
    adopt,
    work,
)

PACKAGE = "homing_systems.events.postgres"

OLD_TABLE = """
create schema core;
create table core.outbox (
    event_id uuid primary key, event_type text not null, payload jsonb not null,
    idempotency_key text not null unique, source text not null, target text,
    status text not null default 'pending', generation bigint not null default 0,
    created_at timestamptz not null default now(), deleted_at timestamptz
);
create table core.event_handled (
    event_id uuid, handler_name text, idempotency_key text, handled_at timestamptz default now(),
    primary key (event_id, handler_name)
);
create role producer;
grant usage on schema core to producer;
grant insert, select on core.outbox to producer;
insert into core.outbox (event_id, event_type, payload, idempotency_key, source, target, status)
select gen_random_uuid(), 'paid', '{"n": 1}', word, 'shop', 'ledger', word
from unnest(array['pending', 'in_flight', 'delivered', 'failed']) as word;
insert into core.event_handled (event_id, handler_name, idempotency_key)
select event_id, 'book', idempotency_key from core.outbox where status = 'pending';
"""


@pytest.fixture
def old_outbox(empty_database: str) -> Iterator[Outbox]:
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(OLD_TABLE)
        yield Outbox(empty_database, connection)
        connection.execute("drop owned by producer; drop role producer")


async def test_a_table_from_elsewhere_is_adopted_with_its_rows(old_outbox: Outbox) -> None:
    """E-028, E-031"""
    before = old_outbox.sql("select * from core.outbox order by idempotency_key")
    store = PostgresStore(old_outbox.url)
    store.add_sql_files("events", PACKAGE)
    await store.open()
    await store.close()
    async with old_outbox.homing() as homing:
        await adopt(homing)

    after = old_outbox.sql("select * from core.outbox order by idempotency_key")
    kept = [{name: row[name] for name in before[0] if name != "created_at"} for row in after]
    for row in before:
        del row["created_at"]
        row["status"] = "pending" if row["status"] == "in_flight" else row["status"]
    assert kept == before
    gained = [(row["attempts"], row["last_error"] or None, row["failure_history"]) for row in after]
    assert gained[0] == (0, None, [])
    again = (files(PACKAGE) / "20260425014302_core_outbox_failure_history.sql").read_text()
    old_outbox.sql(again)
    assert old_outbox.sql("select * from core.outbox order by idempotency_key") == after

    homing, seen = old_outbox.homing(), list[str]()
    homing.on("paid", name="book")(lambda event: seen.append(event.key))
    async with homing:
        await work(homing)
        [failed] = [row for row in after if row["status"] == "failed"]
        old_outbox.replay(failed["event_id"])
        await work(homing)
    # The pending one was handled already.
    assert seen == ["in_flight", "failed"]
    old_outbox.sql("set role producer")
    assert old_outbox.sql("select distinct status from core.outbox") == [{"status": "delivered"}]
    old_outbox.sql(
        "insert into core.outbox (event_id, event_type, payload, idempotency_key, source)"
        " values (gen_random_uuid(), 'paid', '{}', 'new', 'shop')"
    )
    old_outbox.sql("reset role")

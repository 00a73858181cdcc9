"""Plans and costs of the PostgreSQL store: the same whatever statistics and history say."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from msgspec.structs import replace

from homing.domain.delivery import Change, Delivery
from homing.domain.writes import Write, write_of_change, write_of_new
from homing.ports import Added, Facet, GroupBy, Put, Query
from homing.stores.sql.asking import Steps
from homing.stores.sql.columns import Row
from homing.stores.sql.dialect import Dialect
from homing.stores.sql.postgres import PostgresStore, writing
from homing.stores.sql.postgres.claiming import claim_statement
from homing.stores.sql.postgres.connection import Connection, Session
from homing.stores.sql.postgres.executing import assumed_plan
from homing.stores.sql.postgres.statement import Statement
from homing.testing import samples
from tests import servers

# `make claim-cost ROWS=10000000` takes minutes; this many are enough to see a scan.
ROWS = int(os.environ.get("ROWS", "20000"))
BATCH = 256


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Server]:
    """No vacuum: the statistics stay those of empty tables."""
    with servers.postgres("autovacuum=off", "fsync=off", "full_page_writes=off") as server:
        yield server


@pytest_asyncio.fixture
async def store(server: servers.Server) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(f"{server.url}?durability=weak")
    await store.open()
    yield store
    await store.close()


async def plan(connection: Connection, statement: Statement, options: str = "") -> list[str]:
    explained = Statement(f"explain ({options}costs off) {statement.sql}", statement.parameters)
    return [line for (line,) in await connection.run(explained)]


def planned(writes: Sequence[Write], held: Mapping[str, Delivery] | None = None) -> Statement:
    """The one statement that writes them without a look."""
    made = assumed_plan([Put(writes)], held or {})
    assert made is not None
    [statement] = writing.statements(made, is_held=held is not None)
    return statement


async def test_every_statement_of_the_hot_path_goes_by_the_indexes(store: PostgresStore) -> None:
    """Planned on empty tables that were analysed when they were empty."""
    assert await store.save([samples.ended(samples.delivery("unknown"))]) == [False]
    await store.add([], [samples.fact("opens the connections")])
    parts = store._open.committing  # the connections whose settings are tested
    with psycopg.connect(store._url, autocommit=True) as connection:
        connection.execute("analyze")
    await store.add(samples.many(BATCH, key_term_s=60.0, key="k"))
    held = await store.claim(samples.claim(limit=BATCH))
    ended = [
        replace(
            samples.ended(one.delivery),
            results={"made": b"1"},
            facts=(samples.fact(one.delivery.id),),
            ended=(samples.attempt(one.delivery.id),),
        )
        for one in held
    ]
    saving = planned([write_of_change(one) for one in ended], parts.held.records)
    lone = planned([write_of_change(samples.ended(held[0].delivery))], parts.held.records)
    adding = planned([write_of_new(samples.keyed("k", "k"))])
    several = planned([write_of_new(one) for one in samples.many(3, prefix="several")])

    claim = await plan(parts.claims, claim_statement(samples.claim()))
    saved = await plan(parts.saves.connection, saving)
    others = saved + await plan(parts.saves.connection, lone)
    others += await plan(parts.adds.connection, adding)
    others += await plan(parts.adds.connection, several)

    # For each of attempts, results, terms and facts.
    assert "\n".join(saved).count("hashed SubPlan") == 4
    assert not [line for line in claim + others if "Seq Scan" in line]
    assert not [line for line in claim + others if "Hash Join" in line or "Merge Join" in line]
    text = "\n".join(claim)
    assert text.count("Index Scan using homing_open_ready") == 1
    assert text.count("Index Scan using homing_open_leases") == 1
    assert "Tid Scan on homing_open" in text
    assert "Index Scan using homing_records_pkey" in text


async def test_what_is_read_and_locked_first_goes_by_the_indexes_too(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that is taken, a fan-out, an amendment, the end of a child, a removal."""
    seen: dict[str, Statement] = {}
    run = Session.run

    async def noted(self: Session, statement: Statement) -> list[Row]:
        seen[statement.sql] = statement
        return await run(self, statement)

    monkeypatch.setattr(Session, "run", noted)
    key = samples.keyed("read p", "read", payload=b"old")
    await store.add([key])
    assert not isinstance((await store.add([samples.keyed("read q", "read")]))[0], Added)
    amended = replace(samples.ended(key.delivery, "failed"), payload=b"new", drop_results=True)
    assert await store.save([amended]) == [True]
    parent = await store.get("read p")
    assert parent is not None
    waiting = samples.waiting(parent, [samples.child("read c", "read p")])
    assert await store.save([waiting]) == [True]
    child = await store.get("read c")
    assert child is not None
    assert await store.save([samples.ended(child)]) == [True]
    gone = [await store.get(one) for one in ("read p", "read c")]
    assert await store.save([Change(one, forget=True) for one in gone if one]) == [True, True]

    connection = store._open.committing.saves.connection
    plans = [line for one in seen.values() for line in await plan(connection, one)]
    assert len(seen) > 10
    assert not [line for line in plans if "Seq Scan" in line]
    assert not [line for line in plans if "Hash Join" in line or "Merge Join" in line]


async def test_a_full_claim_locks_nothing_that_is_less_urgent(store: PostgresStore) -> None:
    """While its transaction is open, another worker gets what it has left."""
    queue: dict[str, Any] = {"queue": "locks", "route": "locks"}
    await store.add(samples.many(2, prefix="first", priority=1, **queue))
    await store.add(samples.many(2, prefix="second", priority=2, **queue))
    claim = samples.claim(queues=("locks", "empty"), limit=2)

    async with store._open.committing.purges.transaction() as session:
        first = await session.run(claim_statement(claim))
        second = await store.claim(claim)

    assert sorted(row[0] for row in first) == ["first00000", "first00001"]
    assert [one.delivery.id for one in second] == ["second00000", "second00001"]


async def test_the_cost_of_a_claim_does_not_depend_on_what_was_delivered(
    store: PostgresStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Counted in pages: the same with an empty history and with ROWS delivered rows."""
    queue: dict[str, Any] = {"queue": "cost", "route": "cost"}
    await store.add([samples.new("first", **queue)])

    async def pages_of_a_batch(name: str) -> int:
        news = samples.many(BATCH, prefix=name, **queue)
        await store.add(news)
        claim = samples.claim(queues=("cost",), limit=BATCH)
        lines = await plan(
            store._open.committing.claims, claim_statement(claim), "analyze, buffers, "
        )
        [buffers] = [line for line in lines if line.strip().startswith("Buffers")][:1]
        words = buffers.replace("=", " ").split()
        return sum(int(words[words.index(kind) + 1]) for kind in ("hit",) if kind in words)

    await pages_of_a_batch("warm")
    before = await pages_of_a_batch("a")
    await asyncio.to_thread(fill_history, store._url, ROWS)
    after = await pages_of_a_batch("b")

    assert (await store.count(Query(route="history")))[()] == ROWS
    with capsys.disabled():
        print(f"\n  pages per claim of {BATCH}: {before}, with {ROWS} delivered rows {after}")  # noqa: T201 - the figure is a product
    # A longer index is a level or two deeper; a scan would read as many pages as there are.
    assert after <= before * 1.5


def fill_history(url: str, rows: int) -> None:
    """Delivered rows, made by the server."""
    with psycopg.connect(url, autocommit=True) as connection:
        columns = [
            name
            for (name,) in connection.execute(
                "select attname from pg_attribute"
                " where attrelid = 'homing_open'::regclass and attnum > 0"
            )
        ]
        values = {name: name for name in columns} | {
            "id": "'h' || lpad(n::text, 12, '0')",
            "route": "'history'",
            "state": "'delivered'",
            "ended_at_ms": "created_at_ms + n",
            "created_at_ms": "created_at_ms + n",
        }
        connection.execute(
            f"insert into homing_ended ({', '.join(columns)})"
            f" select {', '.join(values[name] for name in columns)}"
            " from homing_open cross join generate_series(1, %s) as n"
            " where id = 'first'".replace("%s", str(rows))
        )
        connection.execute(
            "insert into homing_records (id, record, payload)"
            " select 'h' || lpad(n::text, 12, '0'), record, payload"
            f" from homing_records cross join generate_series(1, {rows}) as n where id = 'first'"
        )


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (Query(source="no such program"), "homing_ended_created"),
        (Query(topic="none", facets=(Facet(state="failed"),)), "homing_ended_failed"),
        (Query(recipient="very@many.test"), "homing_ended_created"),
    ],
)
async def test_a_bounded_page_goes_along_an_index(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, query: Query, index: str
) -> None:
    """As with so many that the address has very many."""
    if query.recipient:
        monkeypatch.setattr("homing.stores.sql.listing._has_many", _always)
    await fill_pages(store)
    seen = await statements(store, monkeypatch, lambda: store.page_within(query, None, 50, 5000))

    assert len(seen) == 4  # first a little, then all that may be looked at: an edge, and a page
    for lines in seen:
        assert not [line for line in lines if "Seq Scan on homing_ended" in line]
        assert any(f" {index}" in line for line in lines), lines


async def test_failures_since_lately_are_counted_along_their_index(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill_pages(store)
    query = Query(updated_from_ms=1, facets=(Facet(state="failed"),))
    by: tuple[GroupBy, ...] = ("route", "error_class", "failed_because")
    [lines] = await statements(store, monkeypatch, lambda: store.count_up_to(query, 100, by))

    assert any("Backward using homing_ended_failed_since" in line for line in lines), lines


def _always(dialect: Dialect, address: str) -> Steps[bool]:
    del dialect, address
    yield from ()
    return True


async def fill_pages(store: PostgresStore) -> None:
    """30,000 ended deliveries, a quarter of them dead letters."""
    if (await store.count(Query(route="pages")))[()]:
        return
    await store.add([samples.new("first of pages", route="pages", queue="pages")])
    await asyncio.to_thread(fill_ended, store._url)


def fill_ended(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "select attname from pg_attribute"
            " where attrelid = 'homing_open'::regclass and attnum > 0"
        )
        columns = [name for (name,) in found]
        values = {name: name for name in columns} | {
            "id": "'p' || lpad(n::text, 12, '0')",
            "state": "case when n % 4 = 0 then 'failed' else 'delivered' end",
            "updated_at_ms": "created_at_ms + n",
            "created_at_ms": "created_at_ms + n",
        }
        connection.execute(
            f"insert into homing_ended ({', '.join(columns)})"
            f" select {', '.join(values[name] for name in columns)}"
            " from homing_open cross join generate_series(1, 30000) as n"
            " where id = 'first of pages'"
        )
        connection.execute("vacuum analyze homing_ended, homing_open, homing_recipients")


async def statements(
    store: PostgresStore,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[], Awaitable[object]],
) -> list[list[str]]:
    """The plans of what was asked."""
    seen: list[Statement] = []
    run = Connection.run

    async def noted(self: Connection, statement: Statement, **more: Any) -> Any:
        seen.append(statement)
        return await run(self, statement, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "run", noted)
        await ask()
    listings = store._open.listings
    return [await plan(listings, each) for each in seen if "homing_deliveries" in each.sql]

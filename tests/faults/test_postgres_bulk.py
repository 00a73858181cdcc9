"""A large add, beyond the contract: the same rows in every way, and lost connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from msgspec import structs

from homing import Event, Homing, IdempotencyConflict
from homing.domain.delivery import Fact, New, Recipient
from homing.ports import Added, Existing, Query
from homing.stores.sql.postgres import PostgresStore, writing
from homing.stores.sql.postgres.connection import MOST_UNANSWERED
from homing.testing import samples
from tests import servers
from tests.faults.proxy import proxy_to

BOUND_S = 60.0
PART = 150
TABLES = (
    *("homing_open", "homing_records", "homing_keys", "homing_results", "homing_facts"),
    "homing_recipients",
)


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Server]:
    with servers.postgres() as server:
        yield server


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    try:
        async with asyncio.timeout(BOUND_S):
            yield store
    finally:
        await store.close()


def news(name: str, count: int = 5 * PART) -> list[New]:
    return [samples.keyed(f"{name}-{n:04}", f"{name}-{n}", source=name) for n in range(count)]


async def stored(store: PostgresStore, name: str) -> int:
    return (await store.count(Query(source=name)))[()]


def unlike(name: str) -> list[New]:
    """Parts of one kind, of two, with other keys than their own for ever, and with what only rows
    can say."""
    alike = news(name, 2 * PART)
    urgent = [
        structs.replace(one, delivery=structs.replace(one.delivery, priority=1))
        for one in news(f"{name}-urgent", PART)
    ]
    termed = [keyed_otherwise(one, expires_at_ms=1) for one in news(f"{name}-termed", PART)]
    intended = [
        keyed_otherwise(one, key=f"intent-{one.delivery.id}")
        for one in news(f"{name}-intended", PART)
    ]
    mixed = news(f"{name}-mixed", PART)
    mixed[1] = structs.replace(mixed[1], payload=b"")
    mixed[2] = structs.replace(mixed[2], results={"made": b"1"})
    mixed[3] = structs.replace(mixed[3], facts=(Fact("kind", f"{name}-3", 1, {"a": 1}),))
    mixed[4] = structs.replace(mixed[4], keys=())
    to_ann = structs.replace(mixed[5].delivery, recipients=(Recipient("ann@example.org"),))
    mixed[5] = structs.replace(mixed[5], delivery=to_ann)
    return [*alike, *urgent, *termed, *intended, *mixed]


def keyed_otherwise(new: New, **fields: object) -> New:
    return structs.replace(new, keys=(structs.replace(new.keys[0], **fields),))


async def test_all_ways_to_add_store_the_same(server: servers.Server) -> None:
    """Together, and one by one."""
    new = unlike("alike")
    seen = []
    with psycopg.connect(server.url, autocommit=True) as admin:
        for way in ("together", "alone"):
            admin.execute(f"create database {way}")
            url = f"{server.url.rpartition('/')[0]}/{way}"
            async with opened(url) as store:
                if way == "together":
                    answers = await store.add(new)
                else:
                    answers = [answer for one in new for answer in await store.add([one])]
                assert answers == [Added(one.delivery.id) for one in new]
            with psycopg.connect(url) as database:
                seen.append(
                    [
                        database.execute(f"select * from {table} order by 1, 2").fetchall()
                        for table in TABLES
                    ]
                )
    assert seen[0] == seen[1]
    assert all(seen[0])


async def test_a_collision_far_behind_what_was_sent(server: servers.Server) -> None:
    """More parts than are sent ahead: the server is asked in between, in one transaction."""
    number = (MOST_UNANSWERED + 1) * writing.PART
    new = news("many", number)
    async with opened(server.url) as store:
        await store.add([samples.keyed("many-taken", f"many-{number - 1}", source="many")])

        *added, last = await store.add(new)

        assert added == [Added(one.delivery.id) for one in new[:-1]]
        assert isinstance(last, Existing)
        assert last.delivery_id == "many-taken"
        assert await stored(store, "many") == number


@pytest.mark.parametrize("at", [b"", b"COMMIT"])
async def test_a_large_add_whose_answer_is_lost_is_found_again(
    server: servers.Server, at: bytes
) -> None:
    """The answer to the first statement of the transaction, or to the last."""
    name = f"lost-{at.decode()}"
    new = news(name)
    async with proxy_to(server.port) as proxy:
        url = server.url.replace(f":{server.port}", f":{proxy.port}")
        async with opened(url) as store:
            await store.add([samples.new(f"{name} opens the connection")])
            proxy.cut_before_answer(at)
            answers = await store.add(new)
            assert proxy.has_cut
            assert answers == [Added(one.delivery.id) for one in new]
            assert await stored(store, name) == len(new)


async def test_behind_pgbouncer(server: servers.Server) -> None:
    new = news("pooled")
    with servers.pgbouncer(server, "default_pool_size=2") as bouncer:
        async with opened(bouncer.url) as store:
            answers = await store.add(new)
            assert answers == [Added(one.delivery.id) for one in new]


async def test_submit_many_tells_conflicts_in_their_places(server: servers.Server) -> None:
    async with Homing(server.url, worker=False) as homing:
        await homing.submit(Event("paid", {"number": -1}), key="many-200")
        pairs = [(f"many-{n}", Event("paid", {"number": n})) for n in range(500)]
        for is_new in (True, False):
            tickets = await homing.submit_many(pairs)
            conflicts = [n for n, one in enumerate(tickets) if isinstance(one, IdempotencyConflict)]
            assert conflicts == [200]
            assert [t.created for t in tickets if not isinstance(t, IdempotencyConflict)] == [
                is_new
            ] * 499

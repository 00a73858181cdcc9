"""The numbers of ended deliveries that PostgreSQL keeps: always those of the rows themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
import pytest_asyncio

from homing.domain.delivery import Delivery
from homing.ports import Facet, PurgeRule, Query
from homing.stores.sql import migrate, schema
from homing.stores.sql.postgres import PostgresStore
from homing.testing import samples
from tests import servers

REAL = "select d.route, d.queue, d.state, count(*) from homing_deliveries as d group by 1, 2, 3"
MANY = 250


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Server]:
    with servers.postgres("fsync=off", "full_page_writes=off") as server:
        yield server


@pytest.fixture
def url(server: servers.Server, request: pytest.FixtureRequest) -> str:
    name = f"counts_{abs(hash(request.node.name)):x}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
    return f"{server.url.rpartition('/')[0]}/{name}?durability=weak"


@pytest_asyncio.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    yield store
    await store.close()


async def expect_real_numbers(store: PostgresStore) -> None:
    with psycopg.connect(store._url) as connection:
        real = {row[:-1]: row[-1] for row in connection.execute(REAL)}
    assert await store.count(Query(), by=("route", "queue", "state")) == real
    assert (await store.count(Query()))[()] == sum(real.values())
    delivered = Query(facets=(Facet(state="delivered"),))
    assert (await store.count(delivered))[()] == sum(
        number for (*_, state), number in real.items() if state == "delivered"
    )


async def held(store: PostgresStore) -> list[Delivery]:
    return [one.delivery for one in await store.claim(samples.claim(limit=1000))]


async def test_they_follow_every_way_in_and_out(store: PostgresStore) -> None:
    await store.add(samples.many(20))
    await expect_real_numbers(store)
    claimed = await held(store)
    await store.save([samples.ended(one) for one in claimed[:10]])
    await store.save([samples.ended(one, "failed") for one in claimed[10:15]])
    await expect_real_numbers(store)
    failed = await store.page(Query(facets=(Facet(state="failed"),)))
    await store.save([samples.reopened(failed.items[0])])
    await store.save([samples.ended(failed.items[1], "dismissed")])
    await expect_real_numbers(store)
    await store.purge(
        PurgeRule(what="delivery", before_ms=samples.NOW_MS * 2, states=("delivered",))
    )
    await expect_real_numbers(store)
    with psycopg.connect(store._url) as connection:
        connection.execute("update homing_ended set state = 'delivered' where state = 'failed'")
    await expect_real_numbers(store)
    with psycopg.connect(store._url) as connection:
        connection.execute("truncate homing_ended")
    await expect_real_numbers(store)


async def test_many_small_changes_are_added_up(store: PostgresStore) -> None:
    await store.add(samples.many(MANY))
    for one in await held(store):
        await store.save([samples.ended(one)])
    await expect_real_numbers(store)
    with psycopg.connect(store._url) as connection:
        rows = connection.execute("select number from homing_counts").fetchall()
    assert rows == [(MANY,)]


async def test_what_ended_before_the_migration_is_counted(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the store of a version that does not know of it goes on beside the new one."""
    shipped = migrate.shipped("homing.stores.sql.postgres")
    older, store = PostgresStore(url), PostgresStore(url)
    with monkeypatch.context() as before:
        before.setattr(schema, "shipped", lambda _: shipped[:1])
        await older.open()
    await older.add(samples.many(6))
    claimed = await held(older)
    await older.save([samples.ended(one) for one in claimed[:3]])
    await store.open()
    await expect_real_numbers(store)
    await older.save([samples.ended(one) for one in claimed[3:]])
    await expect_real_numbers(store)
    await older.close()
    await store.close()


async def test_a_listing_of_one_state_reads_one_table(store: PostgresStore) -> None:
    with psycopg.connect(store._url) as connection:
        for state, unread in (("pending", "homing_ended"), ("failed", "homing_open")):
            lines = connection.execute(
                f"explain select * from homing_deliveries as d where d.state = '{state}'".encode()
            ).fetchall()
            assert unread not in str(lines)

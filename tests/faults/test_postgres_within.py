"""Adding inside the caller's own transaction on PostgreSQL, with each library for real."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import asyncpg
import psycopg
import pytest
import sqlalchemy

from homing import Event, Homing, IdempotencyConflict, InvalidRequest
from homing.domain.errors import StoreError, StoreLocked, StoreUnavailable, StoreUnsafe
from homing.ports import Added, Existing
from homing.stores.sql.postgres import PostgresStore
from homing.testing import samples
from tests import servers
from tests.faults.postgres_libraries import (
    ASYNC,
    BOOK,
    SYNC,
    AsyncLibrary,
    Library,
    async_engine,
    django_connection,
    sqlalchemy_engine,
    with_async_psycopg,
    with_async_session,
    with_asyncpg,
)

PAID = Event("invoice.paid", {"number": 7})
SOON_S = 20.0
LONG_S = 600.0


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Server]:
    with servers.postgres("max_connections=60") as server:
        with psycopg.connect(server.url, autocommit=True) as database:
            database.execute("create database elsewhere")
        yield server


@pytest.fixture
def url(server: servers.Server) -> str:
    """A database with Homing's tables, one of the application, and no rows."""
    asyncio.run(_migrate(server.url))
    with psycopg.connect(server.url) as database:
        database.execute("create table if not exists bookings (id bigserial primary key)")
        database.execute(
            "truncate bookings, homing_open, homing_records, homing_keys, homing_facts"
        )
    return server.url


async def _migrate(url: str) -> None:
    store = PostgresStore(url)
    await store.open()
    await store.close()


@pytest.fixture
def homing(url: str) -> Homing:
    return Homing(url, worker=False)


@pytest.fixture
def store(url: str) -> PostgresStore:
    """Not opened: adding inside a transaction of the caller needs no start."""
    return PostgresStore(url)


class Stored:
    """What other connections see."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self) -> tuple[int, int]:
        """Business rows and deliveries."""
        with psycopg.connect(self._url) as database:
            counted = "select (select count(*) from bookings), (select count(*) from homing_open)"
            [row] = database.execute(counted).fetchall()
            return row[0], row[1]


@pytest.fixture
def stored(url: str) -> Stored:
    return Stored(url)


class Undo(Exception):
    pass


@pytest.mark.parametrize("library", SYNC.values(), ids=SYNC)
def test_both_are_stored_or_neither_i2(
    url: str, homing: Homing, stored: Stored, library: Library
) -> None:
    with suppress(Undo), library(url) as connection:
        homing.sync.submit(PAID, key="k", within=connection)
        raise Undo
    assert stored() == (0, 0)

    with library(url) as connection:
        first = homing.sync.submit(PAID, key="k", within=connection)
        again = homing.sync.submit(PAID, key="k", within=connection)
        assert stored() == (0, 0)
    assert (first.created, again.created) == (True, False)
    assert again.delivery_id == first.delivery_id
    assert stored() == (1, 1)


@pytest.mark.parametrize("library", ASYNC.values(), ids=ASYNC)
async def test_both_are_stored_or_neither_on_an_async_connection_i2(
    url: str, homing: Homing, stored: Stored, library: AsyncLibrary
) -> None:
    with suppress(Undo):
        async with library(url) as connection:
            await homing.submit(PAID, key="k", within=connection)
            raise Undo
    assert stored() == (0, 0)

    async with library(url) as connection:
        first = await homing.submit(PAID, key="k", within=connection)
        again = await homing.submit(PAID, key="k", within=connection)
        assert stored() == (0, 0)
    assert (first.created, again.created) == (True, False)
    assert again.delivery_id == first.delivery_id
    assert stored() == (1, 1)


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_the_first_statement_of_a_transaction_belongs_to_it(
    url: str, homing: Homing, stored: Stored, driver: str
) -> None:
    """SQLAlchemy begins with its own first statement, and would commit nothing without it."""
    with sqlalchemy_engine(url) as sync_engine, sync_engine.connect() as connection:
        homing.sync.submit(PAID, within=connection)
        connection.rollback()
        homing.sync.submit(PAID, within=connection)
        connection.commit()
    assert stored() == (0, 1)

    async with async_engine(url, driver) as engine, engine.connect() as awaited:
        await homing.submit(PAID, within=awaited)
        await awaited.rollback()
        await homing.submit(PAID, within=awaited)
        await awaited.commit()
    assert stored() == (0, 2)


async def test_a_connection_that_blocks_does_not_block_the_loop(
    url: str, homing: Homing, stored: Stored
) -> None:
    """While another transaction holds the key, the loop goes on; its rollback frees the key."""
    async with asyncio.timeout(SOON_S):
        with psycopg.connect(url) as first, psycopg.connect(url) as second:
            homing.sync.submit(PAID, key="k", within=first)
            waiting = asyncio.ensure_future(homing.submit(PAID, key="k", within=second))
            await _until_blocked(url)
            first.rollback()
            assert (await waiting).created
    assert stored() == (0, 1)


async def test_a_cancelled_call_leaves_nothing_to_the_next_transaction(
    url: str, homing: Homing, stored: Stored
) -> None:
    async with asyncio.timeout(SOON_S):
        bounded = psycopg.connect(url, options="-c lock_timeout=10s")
        with psycopg.connect(url) as first, bounded as second:
            homing.sync.submit(PAID, key="k", within=first)
            waiting = asyncio.ensure_future(homing.submit(PAID, key="k", within=second))
            await _until_blocked(url)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert not _blocked(url)
            second.rollback()
            second.execute(BOOK)
            second.commit()
            first.rollback()
    assert stored() == (1, 0)


@pytest.mark.parametrize("is_kept", [True, False])
async def test_two_callers_of_one_key_make_one_delivery_i3(
    url: str, homing: Homing, stored: Stored, *, is_kept: bool
) -> None:
    """The second waits for the end of the first, and goes on with its own transaction."""
    async with asyncio.timeout(SOON_S):
        async with with_async_psycopg(url) as first, with_asyncpg(url) as second:
            one = await homing.submit(PAID, key="k", within=first)
            waiting = asyncio.ensure_future(homing.submit(PAID, key="k", within=second))
            await _until_blocked(url)
            await (first.commit() if is_kept else first.rollback())
            other = await waiting
    assert other.created is not is_kept
    assert (other.delivery_id == one.delivery_id) is is_kept
    assert stored() == (1 + is_kept, 1)


async def test_an_isolation_level_that_shows_nothing_new_is_told_to_try_again(
    url: str, homing: Homing, stored: Stored
) -> None:
    with psycopg.connect(url) as first, psycopg.connect(url) as second:
        second.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        second.execute(BOOK)
        homing.sync.submit(PAID, key="k", within=first)
        first.commit()
        with pytest.raises(StoreLocked, match="roll back and try again"):
            homing.sync.submit(PAID, key="k", within=second)
        second.rollback()
        assert not homing.sync.submit(PAID, key="k", within=second).created
    assert stored() == (0, 1)


async def _until_blocked(url: str) -> None:
    while not _blocked(url):  # noqa: ASYNC110 - the server has no event for it
        await asyncio.sleep(0.01)


def _blocked(url: str) -> int:
    with psycopg.connect(url) as database:
        [(number,)] = database.execute("select count(*) from pg_locks where not granted").fetchall()
        return int(number)


def test_it_answers_as_the_store_does(url: str, store: PostgresStore) -> None:
    child = samples.child("c", "p")
    with psycopg.connect(url) as connection:
        store.within(connection).add([samples.keyed("old", "taken")])
        connection.commit()
        answers = store.within(connection).add(
            [
                samples.keyed("d1", "taken"),
                samples.new("old"),
                samples.new("p", state="waiting", children=[child]),
            ],
            [samples.fact("audit")],
        )
        [facts] = connection.execute("select count(*) from homing_facts").fetchall()
    assert answers == [Existing("old", samples.key("taken", "old")), Existing("old"), Added("p")]
    assert facts == (1,)


def test_another_request_under_the_same_key_leaves_the_transaction_usable(
    url: str, homing: Homing, stored: Stored
) -> None:
    with psycopg.connect(url) as connection:
        homing.sync.submit(PAID, key="k", within=connection)
        with pytest.raises(IdempotencyConflict):
            homing.sync.submit(Event("invoice.paid", {"number": 8}), key="k", within=connection)
        connection.execute(BOOK)
    assert stored() == (1, 1)


@pytest.mark.parametrize("library", [with_async_psycopg, with_asyncpg], ids=["psycopg", "asyncpg"])
async def test_a_failed_add_leaves_the_rest_of_the_transaction(
    url: str, store: PostgresStore, stored: Stored, library: AsyncLibrary
) -> None:
    async with library(url) as connection:
        with pytest.raises(StoreError, match="priority"):
            await store.within_async(connection).add(
                [samples.new("good"), samples.new("bad", priority=9)]
            )
        await connection.execute(BOOK)
    assert stored() == (2, 0)


@pytest.mark.parametrize("library", [with_async_psycopg, with_asyncpg], ids=["psycopg", "asyncpg"])
async def test_a_lost_connection_stores_nothing(
    url: str, store: PostgresStore, stored: Stored, library: AsyncLibrary
) -> None:
    lost = (psycopg.OperationalError, asyncpg.PostgresError, asyncpg.InterfaceError)
    with suppress(*lost):  # of the library's own end of the transaction
        async with library(url) as connection:
            await store.within_async(connection).add([samples.new("d1")])
            with psycopg.connect(url) as database:
                database.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where pid <> pg_backend_pid() and backend_type = 'client backend'"
                )
            with pytest.raises(StoreUnavailable):
                await store.within_async(connection).add([samples.new("d2")])
    assert stored() == (0, 0)


def test_without_a_transaction_nothing_is_added(url: str, homing: Homing, stored: Stored) -> None:
    refused = pytest.raises(InvalidRequest, match="within: no transaction is open")
    with psycopg.connect(url, autocommit=True) as connection, refused:
        homing.sync.submit(PAID, within=connection)
    with (
        sqlalchemy_engine(url) as engine,
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as core,
        refused,
    ):
        homing.sync.submit(PAID, within=core)
    outside_atomic = django_connection(url)
    with refused:
        homing.sync.submit(PAID, within=outside_atomic)
    outside_atomic.close()
    assert stored() == (0, 0)


async def test_without_a_transaction_nothing_is_added_on_an_async_connection(
    url: str, homing: Homing, stored: Stored
) -> None:
    refused = pytest.raises(InvalidRequest, match="within: no transaction is open")
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        with refused:
            await homing.submit(PAID, within=connection)
    outside_transaction = await asyncpg.connect(url)
    with refused:
        await homing.submit(PAID, within=outside_transaction)
    await outside_transaction.close()
    async with async_engine(url, "asyncpg") as engine, engine.connect() as core:
        autocommit = await core.execution_options(isolation_level="AUTOCOMMIT")
        with refused:
            await homing.submit(PAID, within=autocommit)
    assert stored() == (0, 0)


async def test_a_transaction_that_has_failed_is_refused(url: str, homing: Homing) -> None:
    with psycopg.connect(url) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("select 1 / 0")
        with pytest.raises(InvalidRequest, match="within: the transaction has failed already"):
            homing.sync.submit(PAID, within=connection)
    async with async_engine(url, "asyncpg") as engine, engine.connect() as core:
        with pytest.raises(sqlalchemy.exc.DBAPIError):
            await core.exec_driver_sql("select 1 / 0")
        with pytest.raises(InvalidRequest, match=r"cannot be used: .*aborted"):
            await homing.submit(PAID, within=core)


def test_a_connection_to_another_database_is_refused(
    url: str, server: servers.Server, homing: Homing, stored: Stored
) -> None:
    elsewhere = url.removesuffix("postgres") + "elsewhere"
    with (
        psycopg.connect(elsewhere) as connection,
        pytest.raises(StoreUnsafe, match="database is elsewhere, not the store's postgres"),
    ):
        homing.sync.submit(PAID, within=connection)
    with (
        servers.postgres() as other,
        psycopg.connect(other.url) as connection,
        pytest.raises(StoreUnsafe, match="database is postgres of another server"),
    ):
        homing.sync.submit(PAID, within=connection)
    with psycopg.connect(url, options="-c search_path=pg_catalog") as connection:
        with pytest.raises(StoreUnsafe, match=r"search_path leads to no schema .* to public"):
            homing.sync.submit(PAID, within=connection)
        connection.execute("set search_path = public")
        homing.sync.submit(PAID, within=connection)
    assert stored() == (0, 1)


def test_commits_that_do_not_wait_for_the_disk_are_refused(
    url: str, homing: Homing, stored: Stored
) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("set local synchronous_commit = off")
        with pytest.raises(StoreUnsafe, match="synchronous_commit=off"):
            homing.sync.submit(PAID, within=connection)
    assert stored() == (0, 0)


def test_a_database_without_the_tables_is_refused(url: str) -> None:
    elsewhere = url.removesuffix("postgres") + "elsewhere"
    homing = Homing(elsewhere, worker=False)
    with (
        psycopg.connect(elsewhere) as connection,
        pytest.raises(StoreUnavailable, match=r"no tables of Homing yet: .*`homing migrate`"),
    ):
        homing.sync.submit(PAID, within=connection)


def test_a_role_that_may_not_write_is_refused(url: str, homing: Homing, stored: Stored) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(BOOK)
        connection.execute("create role stranger")
        connection.execute("set local role stranger")
        with pytest.raises(StoreUnavailable, match="permission denied for table"):
            homing.sync.submit(PAID, within=connection)
        connection.execute("reset role")
    assert stored() == (1, 0)


async def test_what_is_not_a_known_connection_is_refused(url: str, homing: Homing) -> None:
    with pytest.raises(InvalidRequest, match=r"builtins\.int is not a connection to PostgreSQL"):
        homing.sync.submit(PAID, within=7)
    with pytest.raises(InvalidRequest, match=r"builtins\.int is not a connection to PostgreSQL"):
        await homing.submit(PAID, within=7)
    with (
        sqlalchemy.create_engine("sqlite://").connect() as elsewhere,
        pytest.raises(InvalidRequest, match=r"over sqlite3\.Connection is not"),
    ):
        homing.sync.submit(PAID, within=elsewhere)
    async with with_async_psycopg(url) as connection:
        with pytest.raises(InvalidRequest, match="is awaited: use `await homing"):
            homing.sync.submit(PAID, within=connection)
    async with with_async_session("asyncpg")(url) as session:
        with pytest.raises(InvalidRequest, match="is awaited: use `await homing"):
            homing.sync.submit(PAID, within=session)
    closed = psycopg.connect(url)
    closed.close()
    with pytest.raises(StoreUnavailable, match="connection is closed"):
        homing.sync.submit(PAID, within=closed)


async def test_connections_behind_a_pooler_are_recognised(
    url: str, server: servers.Server, homing: Homing, stored: Stored
) -> None:
    """PgBouncer hands the session to others between transactions; nothing of ours stays in it."""
    with servers.pgbouncer(server) as pooled:
        for _ in range(2):
            with psycopg.connect(pooled.url, prepare_threshold=None) as connection:
                homing.sync.submit(PAID, within=connection)
        unprepared = await asyncpg.connect(pooled.url, statement_cache_size=0)
        async with unprepared.transaction():
            await homing.submit(PAID, within=unprepared)
        await unprepared.close()
        own = Homing(pooled.url, worker=False)
        with psycopg.connect(url) as connection:
            own.sync.submit(PAID, within=connection)
    assert stored() == (0, 4)


async def test_a_commit_wakes_who_waits_for_work(url: str, store: PostgresStore) -> None:
    async with asyncio.timeout(SOON_S):
        await store.open()
        try:
            while not store._open.listener._hears:  # without, it looks by itself
                await store.wait(LONG_S)
            assert await store.claim(samples.claim()) == []
            waiting = asyncio.ensure_future(store.wait(LONG_S))
            await asyncio.sleep(0)
            assert not waiting.done()
            async with with_asyncpg(url) as connection:
                await store.within_async(connection).add([samples.new("d1")])
            await waiting
            (claimed,) = await store.claim(samples.claim())
        finally:
            await store.close()
    assert claimed.delivery.id == "d1"

"""The PostgreSQL store behind a pooler, over cut and mute connections, and without free ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from psycopg.errors import UniqueViolation

from homing.domain.delivery import Change
from homing.domain.errors import StoreLocked, StoreOutcomeUnknown, StoreUnavailable
from homing.domain.writes import write_of_new
from homing.ports import Added, Batch, Existing, Put, Query
from homing.stores.sql.columns import Row
from homing.stores.sql.postgres import PostgresStore, listening, repeating
from homing.stores.sql.postgres.connection import Connection, Postgres
from homing.stores.sql.postgres.executing import LOOK_FIRST
from homing.stores.sql.postgres.listening import Listener
from homing.stores.sql.postgres.statement import Statement
from homing.testing import samples
from tests import servers
from tests.faults.proxy import Proxy, proxy_to

BOUND_S = 30.0
EMPTY = """truncate homing_open, homing_ended, homing_records, homing_results, homing_recipients,
homing_keys, homing_attempts, homing_facts, homing_sessions"""
HOLD_KEY = """insert into homing_keys (hash, source, key, delivery_id, fingerprint)
values (homing_key_hash('shop', 'held'), 'shop', 'held', 'first', '')"""


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Server]:
    with servers.postgres("max_connections=20") as server:
        asyncio.run(_make_schema(server.url))
        yield server


async def _make_schema(url: str) -> None:
    store = PostgresStore(url)
    await store.open()
    await store.close()


@pytest.fixture(autouse=True)
def emptied(server: servers.Server) -> Iterator[None]:
    yield
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(EMPTY)


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    try:
        async with asyncio.timeout(BOUND_S):
            yield store
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def through_proxy(server: servers.Server) -> AsyncIterator[tuple[PostgresStore, Proxy]]:
    async with proxy_to(server.port) as proxy:
        url = server.url.replace(f":{server.port}", f":{proxy.port}")
        async with opened(url) as store:
            yield store, proxy


async def test_after_a_write_that_need_not_last_the_next_one_waits_for_the_disk(
    server: servers.Server,
) -> None:
    """A renewal and a durable claim use the same connection."""
    asked = Statement("select current_setting('synchronous_commit')")
    async with opened(server.url) as store:
        seen = [
            await store._open.committing.claims.run(asked, durable=durable)
            for durable in (True, False, False, True)
        ]
    assert [value for [(value,)] in seen] == ["on", "off", "off", "on"]


async def test_pgbouncer_in_transaction_mode(server: servers.Server) -> None:
    """Two server connections for all clients: no statement may rely on a session of its own."""
    with servers.pgbouncer(server, "default_pool_size=2") as bouncer:
        async with opened(bouncer.url) as store, opened(bouncer.url) as other:
            for start in range(0, 60, 10):
                news = [samples.keyed(f"d{start + n:03}", f"k{start + n}") for n in range(10)]
                await asyncio.gather(*(store.add([new]) for new in news))
            mine, theirs = await asyncio.gather(
                store.claim(samples.claim("w1", limit=40)),
                other.claim(samples.claim("w2", limit=40)),
            )
            saves = [store.save([samples.ended(one.delivery)]) for one in mine]
            saves += [other.save([samples.ended(one.delivery)]) for one in theirs]
            assert all(saved == [True] for saved in await asyncio.gather(*saves))
            left = await store.claim(samples.claim("w1"))
            assert len({one.delivery.id for one in mine + theirs + left}) == 60

            # There are no notifications here: what another process adds is found by looking.
            await store.wait(0.01)
            waiting = asyncio.ensure_future(store.wait(BOUND_S))
            await other.add([samples.new("late")])
            await waiting
        with psycopg.connect(bouncer.url, autocommit=True, prepare_threshold=None) as connection:
            for _ in range(4):
                for name in ("enable_seqscan", "statement_timeout", "synchronous_commit"):
                    row = connection.execute(
                        "select setting = reset_val from pg_settings where name = %s", (name,)
                    ).fetchone()
                    assert row == (True,), f"{name} leaks to other clients of the pooler"


async def test_an_add_whose_answer_is_lost_is_found_by_its_id(server: servers.Server) -> None:
    async with through_proxy(server) as (store, proxy):
        await store.add([samples.new("first")])
        proxy.cut_before_answer()

        assert await store.add([samples.keyed("d1", "k"), samples.new("d2")]) == [
            Added("d1"),
            Added("d2"),
        ]

        assert proxy.has_cut
        assert await store.count(Query()) == {(): 3}
        again = samples.keyed("d3", "k")
        [answer] = await store.add([again])
        assert answer.delivery_id == "d1"


async def test_a_lone_add_whose_answer_is_lost(server: servers.Server) -> None:
    async with through_proxy(server) as (store, proxy):
        await store.add([samples.new("first")])
        proxy.cut_before_answer()

        assert await store.add([samples.keyed("d1", "k")]) == [Added("d1")]

        assert proxy.has_cut
        assert await store.count(Query()) == {(): 2}
        # Neither its key nor its id is free, each by itself.
        for again in (samples.keyed("d2", "k"), samples.keyed("d1", "other")):
            [answer] = await store.add([again])
            assert isinstance(answer, Existing)
            assert answer.delivery_id == "d1"
        assert await store.find(samples.SOURCE, "other") is None


@pytest.mark.parametrize("is_held", [True, False])
async def test_a_save_whose_answer_is_lost_is_found_by_its_version(
    server: servers.Server, *, is_held: bool
) -> None:
    async with (
        through_proxy(server) as (holder, proxy),
        opened(holder._url) as reader,
        opened(server.url) as other,
    ):
        await holder.add(samples.many(3))
        held = [one.delivery for one in await holder.claim(samples.claim())]
        # Another handle knows nothing of the claims: it reads before it writes.
        store = holder if is_held else reader
        assert await store.save([samples.ended(samples.delivery("unknown"))]) == [False]
        assert await other.save([Change(samples.changed(held[2], topic="taken over"))]) == [True]
        proxy.cut_before_answer(b"" if is_held else b"COMMIT")

        changes = [samples.ended(held[0]), samples.retry(held[1]), samples.ended(held[2])]
        assert await store.save(changes) == [True, True, False]

        assert proxy.has_cut
        states = [one.state for one in await other.get_many([one.id for one in held]) if one]
        assert states == ["delivered", "pending", "in_flight"]


async def test_nothing_is_promised_of_a_mixed_batch_whose_answer_is_lost(
    server: servers.Server,
) -> None:
    """A claim that was made again would take others."""
    async with through_proxy(server) as (store, proxy):
        assert await store.save([samples.ended(samples.delivery("unknown"))]) == [False]
        proxy.cut_before_answer(b"COMMIT")

        put = Put([write_of_new(samples.new("d1"))])
        with pytest.raises(StoreOutcomeUnknown):
            await store.commit(Batch([put], claims=[samples.claim()]))

        assert proxy.has_cut
        assert [one.state for one in await store.get_many(["d1"]) if one] == ["in_flight"]


async def test_a_store_that_is_closed_finishes_what_was_asked_before(
    server: servers.Server,
) -> None:
    async with opened(server.url) as store, opened(server.url) as other:
        asked = [asyncio.ensure_future(store.add([samples.new(f"d{n}")])) for n in range(3)]
        await asyncio.sleep(0)
        await store.close()

        assert [await one for one in asked] == [[Added(f"d{n}")] for n in range(3)]
        assert await other.count(Query()) == {(): 3}


async def test_after_a_repeated_key_the_next_adds_look_first(
    server: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement that the unique index refuses leaves dead rows."""
    refused: list[str] = []
    run = Connection.run

    async def noted(self: Connection, statement: Statement, **how: bool) -> list[Row]:
        try:
            return await run(self, statement, **how)
        except UniqueViolation:
            refused.append(statement.sql)
            raise

    monkeypatch.setattr(Connection, "run", noted)
    async with opened(server.url) as store:
        for n in range(LOOK_FIRST):
            [answer] = await store.add([samples.keyed(f"d{n}", "k")])
            assert answer.delivery_id == "d0"
        assert len(refused) == 1
        assert await store.count(Query()) == {(): 1}


async def test_a_cut_connection_is_opened_again(server: servers.Server) -> None:
    async with through_proxy(server) as (store, proxy):
        await store.add(samples.many(2))
        (held, _) = await store.claim(samples.claim())
        proxy.cut()

        assert await store.save([samples.ended(held.delivery)]) == [True]
        assert await store.add([samples.new("after")]) == [Added("after")]
        with contextlib.suppress(StoreUnavailable):  # only told that the connection was lost
            await store.get("after")
        assert await store.get("after") is not None


async def test_a_mute_connection_is_given_up(server: servers.Server) -> None:
    """Half open: the other side never closes it, and never answers."""
    async with through_proxy(server) as (store, proxy):
        await store.add(samples.many(1))
        store._open.committing.adds.connection._answer_s = 0.5
        proxy.is_mute = True
        adding = asyncio.ensure_future(store.add([samples.new("after")]))
        await proxy.until_swallowed(b"after")
        proxy.is_mute = False  # the old connection has lost its bytes; a new one would work

        assert await adding == [Added("after")]
        assert await store.get("after") is not None


async def test_nothing_is_promised_while_the_server_cannot_be_reached(
    server: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeating, "RECOVER_S", 0.2)
    async with through_proxy(server) as (store, proxy):
        await store.add(samples.many(1))
        await proxy.stop()

        with pytest.raises(Exception, match="postgresql://127"):
            await store.add([samples.new("lost")])
        with pytest.raises(StoreUnavailable):
            await store.add([samples.new("lost")])
        with pytest.raises(StoreUnavailable):
            await store.claim(samples.claim())


async def test_a_key_that_another_transaction_holds_delays_nobody_else(
    server: servers.Server,
) -> None:
    """As a caller does that submits inside a transaction and leaves it open."""
    async with opened(server.url) as store, opened(server.url) as other:
        store._open.committing.adds.connection._settings["lock_timeout"] = "300ms"
        async with other._open.reads.transaction() as session:
            await session.run(Statement(HOLD_KEY))
            answers = await asyncio.gather(
                *(store.add([samples.new(f"free{n}")]) for n in range(3)),
                store.add([samples.keyed("late", "held")]),
                *(store.add([samples.new(f"free{n}")]) for n in range(3, 6)),
                return_exceptions=True,
            )

        assert isinstance(answers.pop(3), StoreLocked)
        assert answers == [[Added(f"free{n}")] for n in range(6)]
        [answer] = await store.add([samples.keyed("late", "held")])
        assert answer.delivery_id == "first"


async def test_a_server_without_free_connections(server: servers.Server) -> None:
    async with opened(server.url) as store:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(psycopg.OperationalError):
                while True:
                    stack.enter_context(psycopg.connect(server.url))

            with pytest.raises(StoreUnavailable, match="too many clients"):
                await store.add([samples.new("d1")])

        assert await store.add([samples.new("d1")]) == [Added("d1")]


async def test_a_notification_that_comes_with_an_answer_is_heard(
    server: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session in which a process listens also asks: both share the bytes that come in."""
    asked = asyncio.Event()

    async def look(_: Listener, connection: Postgres, __: set[str]) -> None:
        await connection.execute("notify homing")
        asked.set()

    monkeypatch.setattr(Listener, "_look", look)
    monkeypatch.setattr(listening, "LOOK_EVERY_S", BOUND_S)
    async with opened(server.url) as store:
        await store.wait(BOUND_S)
        await asked.wait()
        while store._news.moment < len(("it listens", "the notification")):
            await store.wait(BOUND_S)


async def test_a_listener_that_was_cut_off_listens_again(server: servers.Server) -> None:
    async with through_proxy(server) as (store, proxy):
        await heard(store, is_so=True)
        proxy.cut()
        await heard(store, is_so=False)  # told that nothing may be relied on
        await heard(store, is_so=True)
        known = store._news.moment
        with psycopg.connect(server.url, autocommit=True) as other:
            other.execute("notify homing")
        while store._news.moment == known:
            await store.wait(BOUND_S)


async def heard(store: PostgresStore, *, is_so: bool) -> None:
    """Until notifications come in, or no longer do."""
    while store._open.listener._hears is not is_so:
        await store.wait(BOUND_S)


async def test_nothing_large_is_kept_in_memory_until_the_next_statement(
    server: servers.Server,
) -> None:
    def keeps(connection: Connection) -> bool:
        return connection._cursor is not None

    async with opened(server.url) as store:
        adding, claims = store._open.committing.adds.connection, store._open.committing.claims
        await store.add([samples.keyed("small", "small", due_at_ms=samples.NOW_MS - 1)])
        assert keeps(adding)
        await store.add([samples.keyed("large", "large", payload=b"x" * 2**17)])
        assert not keeps(adding)

        await store.claim(samples.claim(limit=1))
        assert keeps(claims)
        await store.claim(samples.claim(limit=1))
        assert not keeps(claims)

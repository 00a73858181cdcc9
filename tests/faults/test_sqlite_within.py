"""Adding inside the caller's own transaction: it stands or falls with what the caller does."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import django
import pytest
import pytest_asyncio
import sqlalchemy
from django.apps import apps
from django.conf import settings
from django.db import connections, transaction
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from homing.domain.delivery import Recipient
from homing.domain.errors import InvalidRequest, StoreError, StoreUnavailable, StoreUnsafe
from homing.ports import Added, Existing, Query, TransactionalStore
from homing.stores.sql.sqlite import SqliteStore
from homing.testing import samples

SOON_S = 10.0
LONG_S = 60.0


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "app.db")
    await store.open()
    with sqlite3.connect(store.path) as connection:
        connection.execute("create table bookings (id integer primary key)")
    connection.close()
    yield store
    await store.close()


@pytest.fixture
def caller(store: SqliteStore) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(store.path, timeout=0.2)
    yield connection
    connection.close()


def book(connection: sqlite3.Connection) -> None:
    connection.execute("insert into bookings default values")


def test_the_store_says_that_it_can(store: SqliteStore) -> None:
    assert isinstance(store, TransactionalStore)


async def test_both_are_stored_or_neither_i2(
    store: SqliteStore, caller: sqlite3.Connection
) -> None:
    for end, expected in ((caller.rollback, 0), (caller.commit, 1)):
        book(caller)
        answers = store.within(caller).add([samples.keyed("d1", "k")], [samples.fact("audit")])
        assert answers == [Added("d1")]
        assert await store.get("d1") is None
        end()
        assert await store.count(Query()) == {(): expected}
        assert len(await store.facts("note")) == expected
        assert caller.execute("select count(*) from bookings").fetchone() == (expected,)


async def test_it_answers_as_the_store_does(store: SqliteStore, caller: sqlite3.Connection) -> None:
    await store.add([samples.keyed("old", "taken")])
    child = samples.child("c", "p", recipients=(Recipient("ann@example.org"),))

    answers = store.within(caller).add(
        [
            samples.keyed("d1", "taken"),
            samples.new("old"),
            samples.new("p", state="waiting", children=[child]),
        ]
    )
    caller.commit()

    assert answers == [
        Existing("old", samples.key("taken", "old")),
        Existing("old"),
        Added("p"),
    ]
    parent = await store.get("p")
    assert parent is not None
    assert (parent.open_children, parent.due_at_ms) == (1, None)
    (found,) = (await store.page(Query(recipient="ann@example.org"))).items
    assert found.id == "c"


async def test_the_connection_is_left_as_it_was(
    store: SqliteStore, caller: sqlite3.Connection
) -> None:
    """Neither the caller's factories nor its converters are met, changed or stumbled over."""

    await store.add([samples.keyed("old", "Grüße", fingerprint="f")])
    caller.row_factory = lambda _, row: {"row": row}
    caller.text_factory = lambda raw: [raw]
    before = (caller.row_factory, caller.text_factory, caller.isolation_level)
    caller.execute("begin")

    answers = store.within(caller).add([samples.keyed("d1", "Grüße"), samples.new("old")])

    assert [answer.delivery_id for answer in answers] == ["old", "old"]
    assert (caller.row_factory, caller.text_factory, caller.isolation_level) == before
    assert caller.in_transaction


async def test_a_failed_add_leaves_the_rest_of_the_transaction(
    store: SqliteStore, caller: sqlite3.Connection
) -> None:
    book(caller)
    with pytest.raises(StoreError):
        store.within(caller).add([samples.new("good"), samples.new("bad", priority=9)])
    caller.commit()

    assert await store.count(Query()) == {(): 0}
    assert caller.execute("select count(*) from bookings").fetchone() == (1,)


async def test_two_callers_of_one_key_make_one_delivery_i3(
    store: SqliteStore, caller: sqlite3.Connection
) -> None:
    """Whoever looks has the write lock already, so nobody can slip in between."""
    other = sqlite3.connect(store.path, timeout=0.05)
    store.within(caller).add([samples.keyed("d1", "k")])

    with pytest.raises(StoreUnavailable, match="locked"):
        store.within(other).add([samples.keyed("d2", "k")])
    caller.commit()

    assert store.within(other).add([samples.keyed("d2", "k")])[0].delivery_id == "d1"
    other.close()


async def test_a_commit_wakes_who_waits_for_work(
    store: SqliteStore, caller: sqlite3.Connection
) -> None:
    async with asyncio.timeout(SOON_S):
        await store.wait(0.01)
        assert await store.claim(samples.claim()) == []
        waiting = asyncio.ensure_future(store.wait(LONG_S))
        store.within(caller).add([samples.new("d1")])
        caller.commit()
        await waiting
    (claimed,) = await store.claim(samples.claim())
    assert claimed.delivery.id == "d1"


@pytest.mark.parametrize(
    ("pragma", "named"),
    [
        ("pragma synchronous = normal", "synchronous is 1"),
        ("pragma synchronous = off", "synchronous is 0"),
    ],
)
async def test_a_weaker_connection_is_refused_by_name(
    store: SqliteStore, caller: sqlite3.Connection, pragma: str, named: str
) -> None:
    caller.execute(pragma)
    with pytest.raises(StoreUnsafe, match=named):
        store.within(caller)


async def test_a_connection_to_something_else_is_refused(
    store: SqliteStore, tmp_path: Path
) -> None:
    elsewhere = sqlite3.connect(tmp_path / "other.db")
    memory = sqlite3.connect(":memory:")
    with pytest.raises(StoreUnsafe, match=r"other\.db"):
        store.within(elsewhere)
    with pytest.raises(StoreUnsafe, match="in memory"):
        store.within(memory)
    with pytest.raises(InvalidRequest, match=r"builtins\.int holds no SQLite connection"):
        store.within(7)
    elsewhere.close()
    memory.close()


async def test_without_a_transaction_nothing_is_added(store: SqliteStore) -> None:
    connection = sqlite3.connect(store.path, isolation_level=None)
    with pytest.raises(InvalidRequest, match="no transaction is open"):
        store.within(connection).add([samples.new("d1")])

    connection.execute("begin")
    store.within(connection).add([samples.new("d1")])
    connection.execute("rollback")
    connection.close()
    assert await store.count(Query()) == {(): 0}


async def test_sqlalchemy_core(store: SqliteStore) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{store.path}")
    with engine.connect() as connection:
        store.within(connection).add([samples.new("undone")])
        connection.rollback()
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("insert into bookings default values"))
        store.within(connection).add([samples.new("done")])
    engine.dispose()

    assert await store.count(Query()) == {(): 1}
    assert await store.get("done") is not None


async def test_the_first_statement_of_a_transaction_of_sqlalchemy_belongs_to_it(
    store: SqliteStore,
) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{store.path}")
    with engine.connect() as connection:
        store.within(connection).add([samples.new("undone")])
        connection.rollback()
        store.within(connection).add([samples.new("done")])
        connection.commit()
    engine.dispose()
    async_engine = create_async_engine(f"sqlite+aiosqlite:///{store.path}")
    async with async_engine.connect() as awaited:
        store.within(awaited).add([samples.new("done, too")])
        await awaited.commit()
    await async_engine.dispose()

    assert await store.count(Query()) == {(): 2}


async def test_sqlalchemy_session(store: SqliteStore) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{store.path}")
    with Session(engine) as session:
        store.within(session).add([samples.new("undone")])
        session.rollback()
        store.within(session).add([samples.new("done")])
        session.commit()
    engine.dispose()

    assert await store.count(Query()) == {(): 1}
    assert await store.get("done") is not None


async def test_sqlalchemy_async(store: SqliteStore) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{store.path}")
    async with engine.connect() as connection:
        await connection.execute(sqlalchemy.text("insert into bookings default values"))
        store.within(connection).add([samples.new("undone")])
        await connection.rollback()
    async with AsyncSession(engine) as session:
        await session.execute(sqlalchemy.text("insert into bookings default values"))
        store.within(session).add([samples.new("done")])
        await session.commit()
    await engine.dispose()

    assert await store.count(Query()) == {(): 1}
    assert await store.get("done") is not None


async def test_django(store: SqliteStore) -> None:
    if not settings.configured:
        settings.configure()
    if not apps.ready:
        django.setup()
    connections.databases["homing"] = connections.configure_settings(
        {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(store.path)}}
    )["default"]

    def work() -> None:
        connection = connections["homing"]
        try:
            with pytest.raises(InvalidRequest, match="no transaction is open"):
                store.within(connection).add([samples.new("nowhere")])
            with transaction.atomic("homing"):
                store.within(connection).add([samples.new("undone")])
                transaction.set_rollback(True, "homing")
            with transaction.atomic("homing"):
                store.within(connection).add([samples.new("done")])
        finally:
            connection.close()

    await asyncio.to_thread(work)

    assert await store.count(Query()) == {(): 1}
    assert await store.get("done") is not None

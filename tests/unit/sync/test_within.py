"""A submission inside the caller's own transaction, as the very first call."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import aiosqlite
import pytest

from homing import Email, Homing, IdempotencyConflict, InvalidRequest
from homing.domain.errors import StoreUnavailable, StoreUnsafe
from homing.providers.stub import StubProvider
from homing.stores.sql import schema
from homing.stores.sql.migrate import Migration, shipped
from homing.stores.sql.sqlite.store import SqliteStore
from tests.faults.processes import until

MAIL = Email(to="ann@example.org", subject="Hello", text="Ann")
TABLES = "select count(*) from sqlite_schema where name like 'homing_%' and type = 'table'"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The database of an application that Homing has never seen."""
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("pragma journal_mode = wal")
        database.execute("create table bookings (id integer primary key)")
    return path


@pytest.fixture
def caller(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("begin immediate")
        connection.execute("insert into bookings default values")
        yield connection


@pytest.fixture
def provider() -> StubProvider:
    return StubProvider()


@pytest.fixture
def homing(path: Path, provider: StubProvider) -> Iterator[Homing]:
    homing = Homing(f"sqlite:///{path}", provider=provider, sender="shop@example.org")
    yield homing
    homing.sync.stop()


def is_sent(provider: StubProvider) -> bool:
    return provider.ledger.total == 1


def test_the_first_call_succeeds_and_is_delivered_after_the_commit(
    homing: Homing, caller: sqlite3.Connection, provider: StubProvider
) -> None:
    ticket = homing.sync.submit(MAIL, within=caller, key="booking-1")
    again = homing.sync.submit(MAIL, within=caller, key="booking-1")
    assert (ticket.created, again.created) == (True, False)
    assert again.delivery_id == ticket.delivery_id
    with pytest.raises(IdempotencyConflict):
        homing.sync.submit(
            Email(to="bob@example.org", subject="Hello", text="Bob"),
            within=caller,
            key="booking-1",
        )
    assert provider.ledger.total == 0

    caller.execute("commit")

    until(lambda: is_sent(provider), lambda: "it was never sent")
    assert caller.execute("select count(*) from bookings").fetchone() == (1,)


def test_a_rollback_takes_the_schema_with_it_and_the_next_call_makes_it(
    path: Path, caller: sqlite3.Connection
) -> None:
    homing = Homing(f"sqlite:///{path}", provider="stub:", sender="a@example.org", worker=False)
    homing.sync.submit(MAIL, within=caller)
    assert caller.execute(TABLES).fetchone() > (5,)
    caller.execute("rollback")
    assert caller.execute(TABLES).fetchone() == (0,)

    caller.execute("begin")
    ticket = homing.sync.submit(MAIL, within=caller)
    caller.execute("commit")
    assert homing.running_in is None  # it has no work to do here
    assert homing.sync.run(homing.ops.show(ticket.delivery_id)).state == "pending"
    homing.sync.stop()


def test_the_start_goes_on_waiting_for_a_caller_who_is_slow(
    homing: Homing, caller: sqlite3.Connection, provider: StubProvider
) -> None:
    homing.store = type(homing.store)(homing.store.path, busy_timeout_s=0.02)  # type: ignore[attr-defined, call-arg] # the same file, with less patience
    homing.sync.submit(MAIL, within=caller)
    with pytest.raises(StoreUnavailable, match="locked"):
        homing.sync.start()
    with pytest.raises(StoreUnavailable, match="locked"):
        homing.sync.start()

    caller.execute("commit")

    until(lambda: is_sent(provider), lambda: "it was never sent")


def test_a_start_that_waits_for_the_caller_can_be_stopped(
    homing: Homing, caller: sqlite3.Connection, provider: StubProvider
) -> None:
    homing.sync.submit(MAIL, within=caller)
    homing.sync.stop()
    assert homing.running_in is None
    caller.execute("commit")
    homing.sync.start()
    until(lambda: is_sent(provider), lambda: "it was never sent")


def test_an_older_schema_is_not_changed_in_passing(
    homing: Homing,
    path: Path,
    caller: sqlite3.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caller.execute("rollback")
    homing.sync.start()
    homing.sync.stop()
    known = shipped("homing.stores.sql.sqlite")
    more = Migration(len(known) + 1, "more", "create table more (id integer);")
    monkeypatch.setattr(schema, "shipped", lambda _: (*known, more))

    caller.execute("begin")
    with pytest.raises(StoreUnavailable, match=r"without 00.._more.*homing migrate"):
        homing.sync.submit(MAIL, within=caller)
    assert caller.in_transaction


def test_a_database_that_is_not_in_wal_mode_is_told_how(tmp_path: Path) -> None:
    homing = Homing(f"sqlite:///{tmp_path}/app.db", provider="stub:", sender="a@example.org")
    with closing(sqlite3.connect(tmp_path / "app.db")) as caller:
        caller.execute("create table bookings (id integer primary key)")
        with pytest.raises(StoreUnsafe, match="pragma journal_mode = wal"):
            homing.sync.submit(MAIL, within=caller)


async def test_the_loop_goes_on_while_another_holds_the_lock(homing: Homing, path: Path) -> None:
    async with homing:
        with (
            closing(sqlite3.connect(path, isolation_level=None)) as other,
            closing(sqlite3.connect(path)) as caller,
        ):
            tried: list[str] = []
            caller.set_trace_callback(tried.append)
            other.execute("begin immediate")
            submitting = asyncio.ensure_future(homing.submit(MAIL, within=caller))
            while tried.count("begin immediate") < 3 and not submitting.done():  # noqa: ASYNC110 - SQLite has no event for it
                await asyncio.sleep(0.001)
            assert not submitting.done()
            other.execute("rollback")
            ticket = await submitting
            assert caller.in_transaction
            assert caller.execute("pragma busy_timeout").fetchone() == (5000,)
            caller.commit()
        await homing.ops.show(ticket.delivery_id)


async def test_it_waits_as_long_as_the_connection_would(homing: Homing, path: Path) -> None:
    async with homing:
        with (
            closing(sqlite3.connect(path, isolation_level=None)) as other,
            closing(sqlite3.connect(path, timeout=0.05)) as caller,
        ):
            other.execute("begin immediate")
            with pytest.raises(StoreUnavailable, match="locked"):
                await homing.submit(MAIL, within=caller)
            assert not caller.in_transaction
            other.execute("rollback")


async def test_an_outdated_transaction_is_refused_at_once(homing: Homing, path: Path) -> None:
    """It has read what another has changed since, so it can never write."""
    async with homing:
        with (
            closing(sqlite3.connect(path, isolation_level=None)) as other,
            closing(sqlite3.connect(path, timeout=3600, isolation_level=None)) as caller,
        ):
            caller.execute("begin")
            caller.execute("select count(*) from bookings").fetchone()
            other.execute("insert into bookings default values")
            async with asyncio.timeout(30):
                with pytest.raises(StoreUnavailable, match="SNAPSHOT"):
                    await homing.submit(MAIL, within=caller)


async def test_a_connection_of_another_thread_is_refused_in_words(
    homing: Homing, path: Path
) -> None:
    async with homing, aiosqlite.connect(path) as caller:
        with pytest.raises(InvalidRequest, match="same thread"):
            await homing.submit(MAIL, within=caller)


async def test_aiosqlite(homing: Homing, path: Path) -> None:
    async with homing, aiosqlite.connect(path, check_same_thread=False) as caller:
        await caller.execute("insert into bookings default values")
        ticket = await homing.submit(MAIL, within=caller)
        await caller.commit()
        await homing.ops.show(ticket.delivery_id)


@pytest.mark.parametrize("is_started", [True, False])
def test_a_call_beside_the_callers_transaction_hints_at_within(
    path: Path,
    is_started: bool,
) -> None:
    homing = Homing(SqliteStore(path, busy_timeout_s=0.01), provider="stub:", worker=False)
    if is_started:
        homing.sync.start()
    with closing(sqlite3.connect(path, isolation_level=None)) as caller:
        caller.execute("begin immediate")
        with pytest.raises(StoreUnavailable, match="submit with `within`"):
            homing.sync.submit(MAIL)
    homing.sync.stop()

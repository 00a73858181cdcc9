"""Worker processes on one PostgreSQL are killed and frozen; who is alive is known to the others."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random

import psycopg
import pytest
from msgspec.structs import replace

from homing.stores.sql.postgres import PostgresStore, presence
from homing.stores.sql.postgres.presence import Sessions
from tests import servers
from tests.faults.killing import Callers, kill_at_random
from tests.faults.processes import BOUND_S, lives
from tests.faults.reckoning import contradictions, lost, read_books
from tests.faults.shared_time import SharedTime
from tests.faults.traps import TRAPPED, Trap
from tests.faults.worker import Setup

# Longer than every wait here: what is taken over was taken over because its holder is dead.
LONG_LEASE_S = 600.0
HOUR_S = 3600.0
BOOT = "boot"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Server]:
    with servers.postgres() as server:
        yield server


@pytest.fixture
def url(server: servers.Server) -> str:
    """A database of its own for each case."""
    name = f"case_{next(_numbers)}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"create database {name}")
    return f"{server.url.rpartition('/')[0]}/{name}"


@pytest.fixture
def setup(url: str, tmp_path: Path) -> Setup:
    SharedTime(tmp_path / "time")
    return Setup(
        folder=tmp_path,
        store=tmp_path / "outbox",
        store_url=url,
        time=tmp_path / "time",
    )


def test_the_work_of_a_killed_process_is_taken_over_before_its_leases_end(setup: Setup) -> None:
    assert setup.store_url is not None
    callers = Callers()
    held = replace(setup, lease_s=LONG_LEASE_S, latency_ms=5)
    with lives() as start:
        survivor, victim = start(held).ready(), start(held).ready()
        callers.ask(victim)
        kill_at_random(victim, Random(1))
        callers.hear(victim)
        callers.ask(survivor, count=0)
        callers.until_answered(survivor)
        survivor.order("end")
        survivor.until_said("ended")
        callers.hear(survivor)
        assert survivor.stop() == 0

    books = read_books(setup.store_url, setup.ledger)
    assert callers.contradicted == []
    assert lost(books, callers.promised) == []
    assert contradictions(books) == []


def test_a_process_frozen_beyond_its_lease_writes_nothing_stale_i12(setup: Setup) -> None:
    assert setup.store_url is not None
    with lives() as start:
        zombie = start(replace(setup, traps=(Trap("P3", signal=signal.SIGSTOP),)))
        zombie.order("submit", "frozen", "ok@stub.test")
        zombie.until_said(TRAPPED)
        zombie.freeze()
        SharedTime(setup.time).let_pass(HOUR_S)
        heir = start(setup).ready()
        heir.order("end")
        heir.until_said("ended")

        zombie.thaw()
        zombie.order("end")
        zombie.until_said("ended")
        assert zombie.stop() == 0
        heir.stop()

    books = read_books(setup.store_url, setup.ledger)
    record = books.of("frozen")
    assert len(record.accepted) == 1
    assert [attempt.status for attempt in record.attempts] == ["interrupted", "done"]
    assert contradictions(books) == []


async def test_the_end_of_a_session_is_seen_from_other_hosts(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "_RETURNS_WITHIN_S", 0.0)
    monkeypatch.setattr(presence, "_OTHERS_RETURN_WITHIN_S", 0.0)
    here, there = PostgresStore(url), PostgresStore(url)
    for store in (here, there):
        await store.open()
        store.presence._locks = None  # as if they were on two hosts
        await store.wait(0.0)
    try:
        there.presence.announce("there", BOOT)
        await _until(lambda: _sessions(here), {"there"})
        assert here.presence.look(BOOT) == {}

        there.presence.abandon("there")
        await there.close()

        await _until(lambda: _dead(here), {"there"})
        here.presence.forget("there")
        await _until(lambda: _sessions(here), set())
    finally:
        await here.close()
        await there.close()


async def _sessions(store: PostgresStore) -> set[str]:
    async with store._open.reads.transaction() as session:
        cursor = await session._connection.execute("select holder from homing_sessions")
        return {holder for (holder,) in await cursor.fetchall()}


async def _dead(store: PostgresStore) -> set[str]:
    return {holder for holder, runs in store.presence.look(BOOT).items() if not runs}


async def _until(seen: Callable[[], Awaitable[set[str]]], wanted: set[str]) -> None:
    async with asyncio.timeout(BOUND_S):
        while await seen() != wanted:  # noqa: ASYNC110 - of another process, or of the server
            await asyncio.sleep(0.05)


def test_a_session_that_comes_back_soon_was_not_a_death() -> None:
    sessions = Sessions()
    sessions.begin(0.0)
    sessions.see(["gone"], 1.0)
    sessions.see(["gone"], 9.0)
    assert sessions.ended == frozenset()  # we are back for too short a time to judge others

    sessions.see(["gone", "cut"], 11.0)
    assert sessions.ended == {"gone"}
    sessions.see(["gone"], 12.0)
    sessions.see(["gone", "cut"], 13.5)
    assert sessions.ended == {"gone"}
    sessions.see(["gone", "cut"], 15.5)
    assert sessions.ended == {"gone", "cut"}

    sessions.begin(20.0)  # the server was away: nobody has a session at first
    sessions.see(["gone", "cut", "other"], 21.0)
    assert sessions.ended == frozenset()

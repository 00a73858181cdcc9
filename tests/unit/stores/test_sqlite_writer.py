"""The writer of SQLite: what was submitted is committed in its order, before the store closes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from homing.ports import Added, Existing
from homing.stores.sql.sqlite import SqliteStore, writer
from homing.stores.sql.sqlite.committing import Committer, Job
from homing.testing import samples

BOUND_S = 30.0


@pytest.fixture
def may_commit(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Until it is set, no commit goes on; so that all requests after the first one wait."""
    may_commit = threading.Event()
    commit = Committer.commit

    def held(self: Committer, job: Job) -> bool:
        may_commit.wait(BOUND_S)
        return commit(self, job)

    monkeypatch.setattr(Committer, "commit", held)
    # However long the thread is not looked after.
    monkeypatch.setattr(writer, "IDLE_EVERY_S", 2 * BOUND_S)
    return may_commit


@pytest_asyncio.fixture
async def store(tmp_path: Path, may_commit: threading.Event) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "outbox.db")
    await store.open()
    yield store
    may_commit.set()
    await store.close()


async def added(store: SqliteStore) -> list[asyncio.Task[list[Added | Existing]]]:
    """Several adds that are under way."""
    adds = [asyncio.ensure_future(store.add([samples.new(f"d{n}")])) for n in range(8)]
    await asyncio.sleep(0)
    return adds


async def test_a_batch_waits_for_those_before_it_and_for_nothing_else(
    store: SqliteStore, may_commit: threading.Event
) -> None:
    adds = await added(store)
    again = asyncio.ensure_future(store.add([samples.new("d7")]))
    await asyncio.sleep(0)
    may_commit.set()

    async with asyncio.timeout(BOUND_S):
        assert await asyncio.gather(*adds) == [[Added(f"d{n}")] for n in range(8)]
        assert await again == [Existing("d7")]


async def test_all_batches_are_answered_before_the_store_is_closed(
    store: SqliteStore, may_commit: threading.Event
) -> None:
    adds = await added(store)
    closing = asyncio.ensure_future(store.close())
    await asyncio.sleep(0)
    may_commit.set()

    async with asyncio.timeout(BOUND_S):
        assert await asyncio.gather(*adds) == [[Added(f"d{n}")] for n in range(8)]
        await closing

"""A large add, beyond the contract: other programs, and what the library makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from homing import Event, Homing, IdempotencyConflict
from homing.domain.delivery import New
from homing.domain.errors import InvalidRequest, StoreUnavailable
from homing.ports import Added, Query
from homing.stores.sql.sqlite import SqliteStore
from homing.testing import samples
from tests.faults.locked_file import locked

MANY = 500


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db"


@pytest_asyncio.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, busy_timeout_s=0.05)
    await store.open()
    yield store
    await store.close()


def keyed(prefix: str = "d") -> list[New]:
    return [samples.keyed(f"{prefix}{nth}", f"{prefix}-key-{nth}") for nth in range(MANY)]


async def stored(store: SqliteStore) -> int:
    return (await store.count(Query()))[()]


async def test_two_at_once_are_both_stored(store: SqliteStore) -> None:
    answers = await asyncio.gather(store.add(keyed("a")), store.add(keyed("b")))
    assert [len(each) for each in answers] == [MANY] * 2
    assert await stored(store) == 2 * MANY


async def test_while_another_program_keeps_the_file_locked_nothing_is_stored(
    store: SqliteStore, path: Path
) -> None:
    async with locked(path):
        with pytest.raises(StoreUnavailable):
            await store.add(keyed())
    assert await stored(store) == 0
    assert await store.add(keyed()) == [Added(one.delivery.id) for one in keyed()]


async def test_a_store_that_is_closed_meanwhile_has_all_of_it(
    store: SqliteStore, path: Path
) -> None:
    adding = asyncio.ensure_future(store.add(keyed()))
    await asyncio.sleep(0)
    await store.close()
    assert len(await adding) == MANY
    again = SqliteStore(path)
    await again.open()
    assert await stored(again) == MANY
    await again.close()


async def test_submit_many_tells_conflicts_in_their_places(path: Path) -> None:
    async with Homing(path, worker=False) as homing:
        await homing.submit(Event("paid", {"number": -1}), key="many-200")
        pairs = [(f"many-{n}", Event("paid", {"number": n})) for n in range(MANY)]
        for is_new in (True, False):
            tickets = await homing.submit_many(pairs)
            conflicts = [n for n, one in enumerate(tickets) if isinstance(one, IdempotencyConflict)]
            assert conflicts == [200]
            created = [t.created for t in tickets if not isinstance(t, IdempotencyConflict)]
            assert created == [is_new] * (MANY - 1)


async def test_submit_many_with_a_bad_one_at_the_end_stores_nothing(path: Path) -> None:
    pairs = [(f"many-{n}", Event("paid", {"number": n})) for n in range(MANY)]
    bad = ("many-bad", Event("paid", {"number": float("nan")}))
    async with Homing(path, worker=False) as homing:
        with pytest.raises(InvalidRequest):
            await homing.submit_many([*pairs, bad])
        assert (await homing.store.count(Query()))[()] == 0
        assert len(await homing.submit_many(pairs)) == MANY

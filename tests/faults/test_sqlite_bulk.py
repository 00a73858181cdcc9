"""A large add in parts, beyond the contract: what else waits for the writer, and other programs."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
import pytest_asyncio

from homing import Event, Homing, IdempotencyConflict
from homing.domain.delivery import New
from homing.domain.errors import InvalidRequest, StoreUnavailable
from homing.ports import Added, Query
from homing.stores.sql.sqlite import SqliteStore
from homing.stores.sql.sqlite.adding_in_parts import PartsRequest
from homing.testing import samples
from homing.testing.contract.adding_in_parts import PART, keyed, parts
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


async def stored(store: SqliteStore) -> int:
    return (await store.count(Query()))[()]


def broken() -> Iterator[Sequence[New]]:
    yield from parts(keyed())
    raise ZeroDivisionError


async def test_one_that_is_given_up_harms_no_other_of_its_commit(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    async with locked(path):  # the writer waits, and then commits all that has come together
        others = [asyncio.ensure_future(store.add([samples.new(f"beside{n}")])) for n in range(9)]
        await asyncio.sleep(0)
        with pytest.raises(ZeroDivisionError):
            await store.add_in_parts(broken())
    assert await asyncio.gather(*others) == [[Added(f"beside{n}")] for n in range(9)]
    assert await stored(store) == 9
    await store.close()


async def test_two_at_once_are_both_stored(store: SqliteStore) -> None:
    ways = [store.add_in_parts(parts(keyed(4 * PART, prefix))) for prefix in ("a", "b")]
    answers = await asyncio.gather(*ways)
    assert [len(each) for each in answers] == [4 * PART] * 2
    assert await stored(store) == 8 * PART


async def test_while_another_program_keeps_the_file_locked_nothing_is_stored(
    store: SqliteStore, path: Path
) -> None:
    async with locked(path):
        with pytest.raises(StoreUnavailable):
            await store.add_in_parts(parts(keyed()))
    assert await stored(store) == 0
    assert len(await store.add_in_parts(parts(keyed()))) == 4 * PART


async def test_a_store_that_is_closed_meanwhile_has_all_of_it(
    store: SqliteStore, path: Path
) -> None:
    adding = asyncio.ensure_future(store.add_in_parts(parts(keyed())))
    await asyncio.sleep(0)
    await store.close()
    assert len(await adding) == 4 * PART
    again = SqliteStore(path)
    await again.open()
    assert await stored(again) == 4 * PART
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


async def test_a_part_that_comes_late_is_not_waited_for_with_the_lock(
    store: SqliteStore, path: Path
) -> None:
    """What makes the parts waits here until another program could write."""

    def slow() -> Iterator[Sequence[New]]:
        for number, part in enumerate(parts(keyed())):
            if number == 2:
                with closing(sqlite3.connect(path, timeout=60.0)) as other:
                    other.execute("begin immediate")
            yield part

    answers = await store.add_in_parts(slow())
    assert answers == [Added(one.delivery.id) for one in keyed()]
    assert await stored(store) == 4 * PART


async def test_what_makes_the_parts_may_fork(store: SqliteStore) -> None:
    def forking() -> Iterator[Sequence[New]]:
        for number, part in enumerate(parts(keyed())):
            if number == 2:
                child = os.fork()
                if child == 0:
                    os._exit(0)
                os.waitpid(child, 0)
            yield part

    assert len(await store.add_in_parts(forking())) == 4 * PART
    assert await stored(store) == 4 * PART


async def test_an_interrupt_before_the_other_parts_leaves_the_file_free(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal may end the call between any two lines: then nobody says that no part comes."""

    def interrupted(_request: PartsRequest) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(PartsRequest, "make_all", interrupted)
        with pytest.raises(KeyboardInterrupt):
            await store.add_in_parts(parts(keyed()))
    assert await store.add([samples.new("later")]) == [Added("later")]
    assert await stored(store) == 1

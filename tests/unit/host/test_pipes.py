"""Calls between the processes of a store: nothing is looked for, it is heard."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from homing.stores.host import WakePipes
from homing.stores.host.pipes import DUE, SOON
from homing.stores.sql.sqlite import SqliteStore, writer
from homing.testing import samples

NEVER_S = 3600.0
SOON_S = 10.0


class Ear:
    def __init__(self, folder: Path) -> None:
        self.pipes = WakePipes(folder)
        self.said = b""
        self._heard = asyncio.Event()
        assert self.pipes.listen(self.hear)

    def hear(self, said: bytes) -> None:
        self.said += said
        self._heard.set()

    async def until_heard(self, word: bytes) -> None:
        async with asyncio.timeout(SOON_S):
            while word not in self.said:
                self._heard.clear()
                await self._heard.wait()


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_a_call_is_heard_by_all_but_the_caller(tmp_path: Path) -> None:
    ears = [Ear(tmp_path) for _ in range(3)]

    ears[0].pipes.call(DUE)
    for ear in ears[1:]:
        await ear.until_heard(DUE)
    ears[1].pipes.call(SOON, own=True)
    for ear in ears:
        await ear.until_heard(SOON)

    assert DUE not in ears[0].said
    for ear in ears:
        ear.pipes.close()


async def test_one_that_comes_later_is_called_too(tmp_path: Path) -> None:
    caller = WakePipes(tmp_path)
    for _ in range(3):
        ear = Ear(tmp_path)
        caller.call(DUE)
        await ear.until_heard(DUE)
        ear.pipes.close()
    caller.close()


async def test_a_listener_that_is_too_busy_to_read_holds_up_no_caller(tmp_path: Path) -> None:
    caller, ear = WakePipes(tmp_path), Ear(tmp_path)
    for _ in range(100_000):
        caller.call(DUE)

    await ear.until_heard(DUE)
    caller.call(SOON)
    await ear.until_heard(SOON)
    ear.pipes.close()
    caller.close()


async def test_the_pipe_of_a_dead_process_is_removed(tmp_path: Path) -> None:
    caller, dead, later = WakePipes(tmp_path), Ear(tmp_path), tmp_path / "0.wake"
    caller.call(DUE)
    [pipe] = files(tmp_path)
    kept = tmp_path / "kept"
    pipe.rename(kept)
    dead.pipes.close()
    kept.rename(pipe)  # as if it had died: closed, and still there
    os.mkfifo(later)

    caller.call(DUE)

    assert files(tmp_path) == []
    caller.close()


async def test_a_pipe_that_was_removed_from_outside_is_made_again(tmp_path: Path) -> None:
    ear, caller = Ear(tmp_path), WakePipes(tmp_path)
    for pipe in files(tmp_path):
        pipe.unlink()

    assert ear.pipes.listen(ear.hear)
    caller.call(DUE)

    await ear.until_heard(DUE)
    ear.pipes.close()
    caller.close()


async def test_where_no_pipe_can_be_made_it_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "processes"
    folder.write_text("a file is in the way")

    assert not WakePipes(folder).listen(lambda said: None)
    WakePipes(folder).call(DUE)


@pytest.fixture
async def stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[SqliteStore, SqliteStore]]:
    """Two that share a file, and never look by themselves."""
    monkeypatch.setattr(writer, "LOOK_EVERY_S", NEVER_S)
    one, other = SqliteStore(tmp_path / "outbox.db"), SqliteStore(tmp_path / "outbox.db")
    await one.open()
    await other.open()
    yield one, other
    await one.close()
    await other.close()
    assert not (tmp_path / "outbox.db.processes").exists()


async def asleep(store: SqliteStore) -> asyncio.Task[None]:
    """A task that waits, once all that was told before has been slept off."""
    await store.wait(0.05)
    await store.wait(0.05)
    waiting = asyncio.ensure_future(store.wait(NEVER_S))
    for _ in range(10):
        await asyncio.sleep(0)
    return waiting


async def test_an_add_of_one_process_wakes_another(
    stores: tuple[SqliteStore, SqliteStore],
) -> None:
    one, other = stores
    waiting = await asleep(other)

    async with asyncio.timeout(SOON_S):
        await one.add(samples.many(1))
        await waiting


async def test_a_commit_of_a_callers_own_transaction_wakes_too(
    stores: tuple[SqliteStore, SqliteStore],
) -> None:
    one, other = stores
    waiting = [await asleep(one), await asleep(other)]
    connection = sqlite3.connect(one.path, isolation_level=None)
    connection.execute("pragma synchronous = full")

    async with asyncio.timeout(SOON_S):
        connection.execute("begin immediate")
        one.within(connection).add(samples.many(1))
        connection.execute("commit")
        await asyncio.gather(*waiting)
    connection.close()

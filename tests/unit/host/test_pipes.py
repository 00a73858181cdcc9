"""Signals between the processes of a store: what is due is not looked for, it is told."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from homing.stores.host import WakePipes, pipes
from homing.stores.host.pipes import DUE, SOON
from homing.stores.sql.sqlite import SqliteStore, writer
from homing.testing import samples

NEVER_S = 3600.0
SOON_S = 10.0


class Listener:
    def __init__(self, folder: Path) -> None:
        self.pipes = WakePipes(folder)
        self.received = b""
        self._came = asyncio.Event()
        assert self.pipes.listen(self.receive)

    def receive(self, signals: bytes) -> None:
        self.received += signals
        self._came.set()

    async def until_received(self, word: bytes) -> None:
        async with asyncio.timeout(SOON_S):
            while word not in self.received:
                self._came.clear()
                await self._came.wait()


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_a_signal_reaches_all_but_its_sender(tmp_path: Path) -> None:
    listeners = [Listener(tmp_path) for _ in range(3)]

    listeners[0].pipes.send(DUE)
    for listener in listeners[1:]:
        await listener.until_received(DUE)
    listeners[1].pipes.send(SOON, to_own=True)
    for listener in listeners:
        await listener.until_received(SOON)

    assert DUE not in listeners[0].received
    for listener in listeners:
        listener.pipes.close()


async def test_one_that_comes_later_is_reached_too(tmp_path: Path) -> None:
    sender = WakePipes(tmp_path)
    for _ in range(3):
        listener = Listener(tmp_path)
        sender.send(DUE)
        await listener.until_received(DUE)
        listener.pipes.close()
    sender.close()


async def test_no_signal_of_a_burst_is_missed(tmp_path: Path) -> None:
    sender, listener = WakePipes(tmp_path), Listener(tmp_path)
    for _ in range(200):
        sender.send(DUE)
        await asyncio.sleep(0)
    sender.send(SOON)

    await listener.until_received(SOON)

    assert listener.received == DUE * 200 + SOON
    listener.pipes.close()
    sender.close()


async def test_after_two_signals_in_a_row_the_pipe_is_left_alone_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipes, "REST_S", NEVER_S)
    sender, listener = WakePipes(tmp_path), Listener(tmp_path)
    for signals in (DUE, DUE + SOON):
        sender.send(signals[-1:])
        await listener.until_received(signals)
    sender.send(DUE)

    for _ in range(10):
        await asyncio.sleep(0)

    assert listener.received == DUE + SOON
    listener.pipes.close()
    sender.close()


async def test_a_listener_that_is_too_busy_to_read_holds_up_no_sender(tmp_path: Path) -> None:
    sender, listener = WakePipes(tmp_path), Listener(tmp_path)
    for _ in range(100_000):
        sender.send(DUE)

    await listener.until_received(DUE)
    sender.send(SOON)
    await listener.until_received(SOON)
    listener.pipes.close()
    sender.close()


async def test_the_pipe_of_a_dead_process_is_removed(tmp_path: Path) -> None:
    sender, dead, later = WakePipes(tmp_path), Listener(tmp_path), tmp_path / "0.wake"
    sender.send(DUE)
    [pipe] = files(tmp_path)
    kept = tmp_path / "kept"
    pipe.rename(kept)
    dead.pipes.close()
    kept.rename(pipe)  # as if it had died: closed, and still there
    os.mkfifo(later)

    sender.send(DUE)

    assert files(tmp_path) == []
    sender.close()


async def test_a_pipe_that_was_removed_from_outside_is_made_again(tmp_path: Path) -> None:
    listener, sender = Listener(tmp_path), WakePipes(tmp_path)
    for pipe in files(tmp_path):
        pipe.unlink()

    assert listener.pipes.listen(listener.receive)
    sender.send(DUE)

    await listener.until_received(DUE)
    listener.pipes.close()
    sender.close()


async def test_where_no_pipe_can_be_made_it_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "processes"
    folder.write_text("a file is in the way")

    assert not WakePipes(folder).listen(lambda signals: None)
    WakePipes(folder).send(DUE)


async def test_a_folder_that_cannot_be_read_any_more_ends_in_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store then looks by itself. (The tests may run as root, who can read everything.)"""
    pipes = WakePipes(tmp_path)
    assert pipes.listen(lambda signals: None)

    def refuse(*args: object, **named: object) -> None:
        raise PermissionError(13, "Permission denied")

    for owner, name in ((os, "stat"), (os, "mkfifo"), (Path, "mkdir"), (Path, "unlink")):
        monkeypatch.setattr(owner, name, refuse)
    assert not pipes.listen(lambda signals: None)
    pipes.send(DUE)
    pipes.close()


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
    assert not waiting.done()
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

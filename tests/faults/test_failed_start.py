"""A start that fails leaves nothing open, and can be repeated."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from homing.domain.errors import StoreError, StoreUnavailable
from homing.runtime.app import Homing
from homing.stores.sql.sqlite import SqliteStore

BOUND_S = 30.0


def open_files(folder: Path) -> list[str]:
    """Files of this process in that folder."""
    links = list(Path("/proc/self/fd").iterdir())
    targets = [str(link.readlink()) for link in links if link.is_symlink()]
    return [target for target in targets if target.startswith(str(folder))]


def threads_of_stores() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "started.db" in thread.name]


async def test_a_start_that_cannot_read_its_journal_closes_the_store(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.mkdir()
    homing = Homing(f"sqlite:///{tmp_path}/started.db", provider="stub:", journal=journal)

    for _ in range(2):
        with pytest.raises(StoreError, match="Is a directory"):
            await homing.start()
        assert (threads_of_stores(), open_files(tmp_path)) == ([], [])

    journal.rmdir()
    async with homing:
        assert await homing.engine.live_workers()
    assert (threads_of_stores(), open_files(tmp_path)) == ([], [])


@pytest.mark.parametrize("method", ["facts", "save"])
async def test_a_store_that_refuses_at_the_start_is_closed(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "started.db")

    async def refuse(*given: object, **named: object) -> None:
        raise StoreUnavailable("refused")

    monkeypatch.setattr(store, method, refuse)

    with pytest.raises(StoreUnavailable, match="refused"):
        await Homing(store, provider="stub:").start()

    assert (threads_of_stores(), open_files(tmp_path)) == ([], [])


async def test_a_start_that_is_cancelled_closes_what_it_opened(tmp_path: Path) -> None:
    """After ever more turns of the loop, up to a start that was done before."""
    homing = Homing(f"sqlite:///{tmp_path}/started.db", provider="stub:")

    turns, has_started = 0, False
    while not has_started:
        task = asyncio.create_task(homing.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        [result] = await asyncio.gather(task, return_exceptions=True)
        assert result is None or isinstance(result, asyncio.CancelledError)
        has_started = result is None
        if has_started:
            await homing.stop()
        # A thread that was under way closes its file and ends by itself.
        async with asyncio.timeout(BOUND_S):
            while threads_of_stores() or open_files(tmp_path):  # noqa: ASYNC110 - no signal tells
                await asyncio.sleep(0.01)
        turns += 1 + turns // 4

    await homing.start()
    await homing.stop()


async def test_a_writer_that_cannot_take_its_lock_file_is_closed(tmp_path: Path) -> None:
    (tmp_path / "started.db.checkpoint.lock").mkdir()

    with pytest.raises(StoreUnavailable, match="Is a directory"):
        await SqliteStore(tmp_path / "started.db").open()

    assert (threads_of_stores(), open_files(tmp_path)) == ([], [])

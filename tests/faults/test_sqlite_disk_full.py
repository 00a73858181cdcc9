"""A full disk: the store refuses, loses nothing, and works again when there is room."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from homing.domain.delivery import New
from homing.domain.errors import StoreError, StoreFull
from homing.ports import Added
from homing.stores.sql.sqlite import SqliteStore
from homing.testing import samples
from tests.faults.disks import SmallMount, small_disk

SIZE = 4 * 1024 * 1024


def big(number: int) -> list[New]:
    return [samples.keyed(f"big{number}", f"big{number}", payload=bytes(200_000))]


async def test_nothing_acknowledged_is_lost_when_the_disk_fills_up_i1(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", SIZE) as disk:
        store = SqliteStore(disk.folder / "outbox.db")
        await store.open()
        await store.add(samples.many(200))
        disk.fill(leave_bytes=300_000)

        answers = await asyncio.gather(
            *(store.add(big(number)) for number in range(12)), return_exceptions=True
        )

        stored = [n for n, answer in enumerate(answers) if answer == [Added(f"big{n}")]]
        refused = [answer for answer in answers if isinstance(answer, BaseException)]
        assert len(stored) + len(refused) == 12
        assert refused
        wanted = StoreFull if isinstance(disk, SmallMount) else StoreError
        assert all(isinstance(error, wanted) for error in refused)
        for number in stored:
            content = await store.content(f"big{number}")
            assert content is not None
            assert len(content.payload) == 200_000
        assert await store.get("d00199") is not None

        disk.free()
        assert await store.add(big(99)) == [Added("big99")]
        await store.close()


async def test_the_room_for_one_is_not_spoiled_by_the_one_too_big(tmp_path: Path) -> None:
    """What has gathered into one commit fails or succeeds one by one."""
    with small_disk(tmp_path / "disk", SIZE) as disk:
        store = SqliteStore(disk.folder / "outbox.db")
        await store.open()
        await store.add(samples.many(500))
        disk.fill(leave_bytes=400_000)

        small, huge, other = await asyncio.gather(
            store.add([samples.new("small")]),
            store.add([samples.new("huge", payload=bytes(2_000_000))]),
            store.add([samples.new("other")]),
            return_exceptions=True,
        )

        assert isinstance(huge, StoreError)
        if isinstance(disk, SmallMount):  # a limit on files reads as an I/O error, for all
            assert [small, other] == [[Added("small")], [Added("other")]]
        disk.free()
        assert await store.add([samples.new("next")]) == [Added("next")]
        await store.close()


async def test_a_disk_that_is_full_from_the_start_refuses_clearly(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64 * 1024) as disk:
        disk.fill()
        with pytest.raises(StoreError):
            await SqliteStore(disk.folder / "outbox.db").open()
        disk.free()

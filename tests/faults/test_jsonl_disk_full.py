"""A full disk: a JSONL store refuses, loses nothing, and works again when there is room."""

from __future__ import annotations

import asyncio
from pathlib import Path

from homing.domain.errors import StoreFull
from homing.ports import Added
from homing.stores.jsonl import JsonlStore
from homing.stores.jsonl.lines import is_whole
from homing.testing import samples
from tests.faults.disks import small_disk

SIZE = 4 * 1024 * 1024


async def test_what_fits_is_stored_and_the_rest_refused_i1(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", SIZE) as disk:
        store = JsonlStore(disk.folder / "queue.jsonl")
        await store.open()
        await store.add(samples.many(200))
        disk.fill(leave_bytes=400_000)

        small, huge, other = await asyncio.gather(
            store.add([samples.keyed("small", "small")]),
            store.add([samples.keyed("huge", "huge", payload=bytes(2_000_000))]),
            store.add([samples.keyed("other", "other")]),
            return_exceptions=True,
        )

        assert isinstance(huge, StoreFull)
        assert [small, other] == [[Added("small")], [Added("other")]]
        assert await store.find(samples.SOURCE, "huge") is None
        disk.free()
        assert await store.add([samples.keyed("huge", "huge")]) == [Added("huge")]
        await store.close()
        assert all(is_whole(line) for line in lines(disk.folder / "queue.jsonl"))


def lines(queue: Path) -> list[bytes]:
    return queue.read_bytes().splitlines()

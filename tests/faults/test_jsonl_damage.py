"""Damage of the files of a JSONL store is detected, put aside and told, never skipped (I24)."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from homing import Email, Homing
from homing.domain.errors import StoreCorrupt
from homing.engine.alerts import QUARANTINED
from homing.ports import Added, Alert
from homing.stores.jsonl import JsonlStore
from homing.stores.jsonl.lines import is_foreign, is_whole
from homing.stores.jsonl.log import Log
from homing.testing import samples
from tests.faults.disks import in_memory

RECORDS = 200


async def make(queue: Path, records: int) -> None:
    store = JsonlStore(queue)
    await store.open()
    await store.add([samples.keyed(f"d{n}", f"k{n}") for n in range(records - 2)])
    await store.add([samples.keyed("d-last", "k-last")])
    [held] = await store.claim(samples.claim(limit=1))
    await store.save([samples.ended(held.delivery)])
    await store.close()


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


@contextmanager
def opened(queue: Path) -> Iterator[Log]:
    log = Log(queue, None)
    try:
        with log.locked(time.monotonic() + 5):
            yield log
    finally:
        log.close()


def copy_of(queue: Path, folder: Path) -> Path:
    folder.mkdir()
    shutil.copy(queue, folder / queue.name)
    shutil.copytree(queue.with_name(f"{queue.name}.d"), folder / f"{queue.name}.d")
    return folder / queue.name


@pytest.mark.parametrize("name", ["queue.jsonl", "queue.jsonl.d/journal.jsonl"])
def test_a_file_cut_at_any_byte_of_its_last_line_loses_only_that_i24_o_105(
    tmp_path: Path, name: str
) -> None:
    queue = tmp_path / "queue.jsonl"
    asyncio.run(make(queue, 6))
    whole = (tmp_path / name).read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for end in range(last + 1, len(whole)):
        damaged = copy_of(queue, tmp_path / str(end))
        cut = damaged.parent / name
        cut.write_bytes(whole[:end])

        with opened(damaged) as log:
            assert len(log.index.deliveries) == 5
            assert len(log.index.facts[QUARANTINED]) == 1

        assert (damaged.parent / "queue.jsonl.d" / "damaged-1").read_bytes() == whole[last:end]
        assert cut.read_bytes().startswith(whole[:last])
        shutil.rmtree(damaged.parent)


def test_a_bit_flipped_at_any_byte_is_detected_i24(tmp_path: Path) -> None:
    """Each line is checked by itself, so only the lines around the flipped byte are looked at."""
    path = tmp_path / "queue.jsonl"
    asyncio.run(make(path, RECORDS))
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == RECORDS + 1
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else b""
        for place in range(len(line)):
            changed = bytearray(line + following)
            changed[place] ^= 1 << (place % 8)
            found = bytes(changed).split(b"\n")
            assert not all(is_whole(one) or is_foreign(one) for one in found if one), (
                number,
                place,
            )


def test_flipped_bits_stop_the_store_or_are_put_aside(tmp_path: Path) -> None:
    """In the last commit it may be a torn write; before it, it is damage for a person."""
    path, random = tmp_path / "queue.jsonl", Random(7)
    asyncio.run(make(path, RECORDS))
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    put_aside = 0
    places = [random.randrange(len(whole)) for _ in range(60)]
    for place in [*places, last, len(whole) - 1]:
        changed = bytearray(whole)
        changed[place] ^= 1 << random.randrange(8)
        path.write_bytes(changed)
        if place >= last:
            put_aside += 1
            with opened(path) as log:
                assert len(log.index.facts[QUARANTINED]) == put_aside
        else:
            with pytest.raises(StoreCorrupt, match="damaged"), opened(path):
                pass
            assert path.read_bytes() == bytes(changed)


def test_what_is_appended_after_a_torn_end_is_whole(tmp_path: Path) -> None:
    queue = tmp_path / "queue.jsonl"
    asyncio.run(make(queue, 6))
    with queue.open("ab") as file:
        file.write(b'{"id":"half')

    async def go_on() -> None:
        store = JsonlStore(queue)
        await store.open()
        assert await store.add([samples.new("next")]) == [Added("next")]
        await store.close()
        again = JsonlStore(queue)
        await again.open()
        assert await again.get("next") is not None
        await again.close()

    asyncio.run(go_on())
    assert all(is_whole(line) for line in queue.read_bytes().splitlines())


async def test_a_torn_end_is_alerted_once(tmp_path: Path) -> None:
    queue = tmp_path / "queue.jsonl"
    await make(queue, 6)
    with queue.open("ab") as file:
        file.write(b'{"id":"half')
    heard: list[Alert] = []
    sounded = asyncio.Event()

    class Ear:
        async def sound(self, alert: Alert) -> bool:
            heard.append(alert)
            sounded.set()
            return True

    for _ in range(2):
        homing = Homing(f"jsonl:///{queue}", provider="stub:", sender="a@b.org", alarm=Ear())
        async with homing, asyncio.timeout(20):
            await homing.send(Email(to="ann@example.org", subject="Hi", text="Hi"))
            await sounded.wait()
    assert [alert.kind for alert in heard] == [QUARANTINED]
    assert "damaged-1" in heard[0].text
    findings = await JsonlStore(queue).findings()
    assert [one.verdict for one in findings if "damaged-1" in one.detail] == ["warning"]

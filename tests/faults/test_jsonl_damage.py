"""Damage of the files of a JSONL store is detected, put aside and told, never skipped (I24)."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from homing import Email, Homing
from homing.domain.errors import StoreCorrupt, StoreLocked
from homing.engine.process.alerts import QUARANTINED
from homing.engine.process.store_health import DAMAGED, REFUSES
from homing.ports import Added, Alert
from homing.stores.jsonl import JsonlStore
from homing.stores.jsonl.correcting import corrected
from homing.stores.jsonl.files import AppendFile
from homing.stores.jsonl.lines import is_foreign, is_whole, sealed
from homing.stores.jsonl.log import Log
from homing.testing import samples
from tests.faults.disks import in_memory
from tests.faults.jsonl_logs import opened

RECORDS = 200


async def make(queue: Path, records: int) -> None:
    store = JsonlStore(queue)
    await store.open()
    await store.add([samples.keyed(f"d{n}", f"k{n}") for n in range(records - 2)])
    await store.add([samples.keyed("d-last", "k-last")])
    [held] = await store.claim(samples.claim(limit=1))
    await store.save([], [samples.fact(f"beat-{n}", kind="worker", n=n) for n in range(3)])
    ended = samples.ended(held.delivery)
    await store.save([replace(ended, ended=(samples.attempt(held.delivery.id),))])
    # As a process that is killed leaves them: closing tells how long the queue is.
    journal = queue.with_name(f"{queue.name}.d") / "journal.jsonl"
    left = journal.read_bytes()
    await store.close()
    journal.write_bytes(left)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


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


def test_each_flipped_bit_of_two_lines_is_found_and_restored_i24() -> None:
    """Also one that ends or makes a line: `J` and `*` are a bit away from a line feed."""
    lines = sealed(b'{"query":"J*zK }}* }}J"', b'{"commit":1}') + sealed(b"{", b'{"commit":22}')
    for place in range(len(lines) * 8):
        changed = flipped(lines, place // 8, place % 8)
        whole = changed.partition(b"\n")[0]
        start = len(whole) + 1 if is_whole(whole) else 0
        assert changed[:start] + (corrected(changed[start:]) or b"") == lines, place


@pytest.mark.parametrize("name", ["queue.jsonl", "queue.jsonl.d/journal.jsonl"])
def test_a_flipped_bit_is_restored_and_its_line_put_aside_i24(tmp_path: Path, name: str) -> None:
    queue, random = tmp_path / "queue.jsonl", Random(7)
    asyncio.run(make(queue, RECORDS))
    file = tmp_path / name
    whole = file.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for place in [*(random.randrange(len(whole)) for _ in range(40)), last, len(whole) - 1]:
        damaged = copy_of(queue, tmp_path / str(place))
        changed = flipped(whole, place, random.randrange(8))
        (damaged.parent / name).write_bytes(changed)

        with opened(damaged) as log:
            states = [one.state for one in log.index.deliveries.values()]
            assert Counter(states) == {"pending": RECORDS - 2, "delivered": 1}
            assert len(log.index.facts[QUARANTINED]) == 1

        assert (damaged.parent / name).read_bytes().startswith(whole)
        assert (damaged.parent / "queue.jsonl.d" / "damaged-1").read_bytes() in changed
        shutil.rmtree(damaged.parent)


async def test_a_bit_that_flips_while_the_store_is_open_is_restored(tmp_path: Path) -> None:
    queue = tmp_path / "queue.jsonl"
    await make(queue, 6)
    whole = queue.read_bytes()
    of_d2 = whole.index(b'"payload":"', whole.index(b'{"id":"d2"')) + 20
    store = JsonlStore(queue)
    await store.open()
    content = await store.content("d2")

    queue.write_bytes(flipped(whole, of_d2, 0))
    assert await store.content("d1") == await store.content("d3")
    assert await store.content("d2") == content
    assert queue.read_bytes() == whole
    assert len(await store.facts(QUARANTINED)) == 1
    await store.close()


@pytest.mark.parametrize("how", ["removed", "emptied", "shortened"])
async def test_a_queue_that_was_shortened_is_not_taken_for_an_empty_one(
    tmp_path: Path, how: str
) -> None:
    """Its open deliveries would be lost in silence."""
    queue = tmp_path / "queue.jsonl"
    store = JsonlStore(queue)
    await store.open()
    await store.add([samples.keyed(f"d{n}", f"k{n}") for n in range(5)])
    await store.add([samples.keyed("d5", "k5")])
    await store.save([], [samples.fact("beat", kind="worker", n=1)])
    whole = queue.read_bytes()
    journal = (tmp_path / "queue.jsonl.d" / "journal.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    if how == "removed":
        queue.unlink()
    else:
        queue.write_bytes(b"".join(lines[:3]) if how == "shortened" else b"")

    for each in (store, JsonlStore(queue)):
        with pytest.raises(StoreCorrupt, match="it was shortened or replaced"):
            await (each.open() if each is not store else each.get("d1"))
    assert (tmp_path / "queue.jsonl.d" / "journal.jsonl").read_bytes() == journal

    queue.write_bytes(whole)
    assert await store.get("d5") is not None
    assert await store.add([samples.keyed("d6", "k6")]) == [Added("d6")]
    await store.close()


async def test_a_queue_of_plain_adds_that_was_removed_is_missed(tmp_path: Path) -> None:
    """Its adds need no line beside the queue; closing tells how long it is."""
    queue = tmp_path / "queue.jsonl"
    store = JsonlStore(queue)
    await store.open()
    await store.add([samples.keyed("d1", "k1")])
    await store.close()
    queue.unlink()

    with pytest.raises(StoreCorrupt, match="it was shortened or replaced"):
        await JsonlStore(queue).open()


@pytest.mark.parametrize("what", ["the journal", "its folder"])
async def test_a_journal_that_was_removed_is_told_once(tmp_path: Path, what: str) -> None:
    queue = tmp_path / "queue.jsonl"
    folder = tmp_path / "queue.jsonl.d"
    await make(queue, 6)
    if what == "the journal":
        (folder / "journal.jsonl").unlink()
    else:
        shutil.rmtree(folder)

    for _ in range(2):
        with opened(queue) as log:
            [fact] = log.index.facts[QUARANTINED].values()
            assert "journal.jsonl is missing beside queue.jsonl" in str(fact.value)
            assert len(log.index.deliveries) == 5


async def test_a_queue_that_only_others_have_written_needs_no_journal(tmp_path: Path) -> None:
    queue = tmp_path / "queue.jsonl"
    queue.write_bytes(b'{"session":"s-1"}\n')

    with opened(queue) as log:
        assert QUARANTINED not in log.index.facts


class Heard:
    """An alarm that keeps what it was given."""

    def __init__(self) -> None:
        self.alerts: list[Alert] = []

    async def sound(self, alert: Alert) -> bool:
        self.alerts.append(alert)
        return True


async def test_a_program_that_cannot_open_its_store_alerts(tmp_path: Path) -> None:
    queue, heard = tmp_path / "queue.jsonl", Heard()
    await make(queue, 6)
    whole = queue.read_bytes()
    queue.write_bytes(b"")
    with pytest.raises(StoreCorrupt):
        await Homing(f"jsonl:///{queue}", provider="stub:", alarm=heard).start()

    queue.write_bytes(whole)
    store = JsonlStore(queue, lock_within_s=0)
    with held(queue), pytest.raises(StoreLocked):
        await Homing(store, provider="stub:", alarm=heard).start()

    assert [alert.kind for alert in heard.alerts] == [DAMAGED, REFUSES]
    assert "it was shortened or replaced" in heard.alerts[0].text


@contextmanager
def held(queue: Path) -> Iterator[None]:
    """Its lock, as another process holds it."""
    with queue.with_name(f"{queue.name}.lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def flipped(data: bytes, place: int, bit: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]


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


def test_an_alert_that_finds_no_room_is_stored_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it is about was cut off before, and is not found again."""
    queue = tmp_path / "queue.jsonl"
    asyncio.run(make(queue, 6))
    with queue.open("ab") as file:
        file.write(b'{"id":"half')
    log = Log(queue, None)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(AppendFile, "append", refuse)
        with pytest.raises(OSError, match="No space"), log.locked(time.monotonic()):
            pass
    with log.locked(time.monotonic()):
        assert len(log.index.facts[QUARANTINED]) == 1
    log.close()


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

"""The emergency journal: outcomes survive when the store takes nothing any more (P8, I24)."""
# ruff: noqa: ASYNC240 - what lies in the file is what the test is about, and nobody else waits

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from homing.domain.delivery import Change
from homing.domain.errors import StoreFull, StoreUnavailable
from homing.stores.emergency import FileJournal
from homing.testing import samples
from tests.faults.disks import small_disk


def outcome(name: str) -> Change:
    before = samples.delivery(name, state="in_flight", version=7, holder="w1")
    ended = (samples.attempt(name, status="done", detail="Grüße\n\x00"),)
    return Change(samples.ended(before).delivery, ended, {"send": bytes(range(256))})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db.emergency"


async def kept(path: Path) -> list[Change]:
    return await FileJournal(path).entries()


async def test_what_was_appended_is_read_back_in_order_p8(path: Path) -> None:
    journal = FileJournal(path)
    assert await journal.entries() == []

    await journal.append([outcome("a"), outcome("b")])
    await journal.append([outcome("c")])

    assert await kept(path) == [outcome("a"), outcome("b"), outcome("c")]


async def test_only_the_owner_may_read_it(path: Path) -> None:
    await FileJournal(path).entries()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_an_operator_can_read_it(path: Path) -> None:
    await FileJournal(path).append([outcome("some-delivery")])

    line = path.read_bytes().splitlines()[0]
    assert b'"id":"some-delivery"' in line


async def test_what_was_read_is_cleared(path: Path) -> None:
    journal = FileJournal(path)
    await journal.append([outcome("a")])
    await journal.entries()

    await journal.clear()

    assert await kept(path) == []
    await journal.append([outcome("b")])
    assert await kept(path) == [outcome("b")]


async def test_what_came_after_the_reading_is_not_cleared(path: Path) -> None:
    """Another process may have had to write while this one was settling what it had read."""
    journal = FileJournal(path)
    await journal.append([outcome("a")])
    await journal.entries()
    await FileJournal(path).append([outcome("b")])

    await journal.clear()

    assert await kept(path) == [outcome("b")]
    await journal.append([outcome("c")])
    assert await kept(path) == [outcome("b"), outcome("c")]


async def test_it_is_written_on_a_full_disk_p8(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 4 * 1024 * 1024) as disk:
        journal = FileJournal(disk.folder / "journal")
        await journal.entries()
        disk.fill()
        with pytest.raises(StoreFull):
            await FileJournal(disk.folder / "late", room_bytes=2**21).append([outcome("x")])

        for number in range(50):
            await journal.append([outcome(f"d{number}")])

        assert await kept(disk.folder / "journal") == [outcome(f"d{n}") for n in range(50)]
        disk.free()


async def test_more_than_its_room_is_refused_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 256 * 1024) as disk:
        journal = FileJournal(disk.folder / "journal", room_bytes=4096)
        await journal.append([outcome("a")])
        disk.fill()

        with pytest.raises(StoreFull):
            await journal.append([outcome("b" * 9000)])

        assert await kept(disk.folder / "journal") == [outcome("a")]
        disk.free()


async def test_more_than_its_room_is_taken_while_the_disk_has_some(path: Path) -> None:
    journal = FileJournal(path, room_bytes=512)
    outcomes = [outcome(f"d{number}") for number in range(20)]

    await journal.append(outcomes)

    assert await kept(path) == outcomes


async def test_a_torn_end_hides_nothing_wherever_it_is_torn_i24(path: Path) -> None:
    await FileJournal(path, room_bytes=2048).append([outcome("a")])
    whole = path.read_bytes()
    start = len(whole.rstrip(b"\0"))
    await FileJournal(path).append([outcome("b")])
    longer = path.read_bytes()
    end = len(longer.rstrip(b"\0"))

    for torn_at in range(start, end, 5):
        path.write_bytes(longer[:torn_at] + bytes(len(longer) - torn_at))
        journal = FileJournal(path)
        assert await journal.entries() == [outcome("a")]
        assert (journal.damage is not None) == (torn_at > start)
        await journal.append([outcome("c")])
        assert await kept(path) == [outcome("a"), outcome("c")]


async def test_damage_of_one_record_hides_no_other_and_is_kept_apart_i24(path: Path) -> None:
    await FileJournal(path, room_bytes=4096).append([outcome("a"), outcome("b"), outcome("c")])
    whole = path.read_bytes()
    ends = [place for place, byte in enumerate(whole) if byte == ord("\n")]
    others = {0: ["b", "c"], 1: ["a", "c"], 2: ["a", "b"]}

    for place in range(1, ends[2], 3):
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        journal = FileJournal(path)

        found = await journal.entries()

        # The end of a line belongs to it.
        hit = [place <= end for end in ends].index(True)
        assert found == [outcome(name) for name in others[hit]], place
        assert journal.damage is not None
        [copy] = path.parent.glob("*.damaged-*")
        assert copy.name in journal.damage
        assert copy.read_bytes() == bytes(damaged).rstrip(b"\0")
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
        copy.unlink()
        await journal.clear()
        assert await kept(path) == []
        assert not list(path.parent.glob("*.damaged-*"))


@pytest.mark.parametrize("zeroed_bytes", [512, 4096])
async def test_a_lost_sector_is_noticed_i24(path: Path, zeroed_bytes: int) -> None:
    """Of an append only zeros reached the disk, or its first sector did not."""
    journal = FileJournal(path)
    await journal.append([outcome("a")])
    start = len(path.read_bytes().rstrip(b"\0"))
    await journal.append([outcome(f"b{number}") for number in range(9)])
    damaged = bytearray(path.read_bytes())
    damaged[start : start + zeroed_bytes] = bytes(zeroed_bytes)
    path.write_bytes(damaged)

    found = await journal.entries()

    lost = 10 - len(found)
    assert found == [outcome("a"), *(outcome(f"b{number}") for number in range(lost, 9))]
    assert lost > 0
    assert f"{lost} record(s) missing" in (journal.damage or "")


async def test_half_a_wipe_is_no_damage(path: Path) -> None:
    """The power may be cut while cleared records are wiped; what is left of them is nothing."""
    journal = FileJournal(path)
    await journal.append([outcome("a"), outcome("b"), outcome("c")])
    done = path.read_bytes().replace(b"\n+ ", b"\n- ")
    wiped = done.index(b"\n") - 5
    path.write_bytes(bytes(wiped) + done[wiped:])

    await journal.append([outcome("d")])

    assert await kept(path) == [outcome("d")]


async def test_several_may_write_at_once(path: Path) -> None:
    journals = [FileJournal(path) for _ in range(4)]

    await asyncio.gather(
        *(journals[n % 4].append([outcome(f"d{n:02}")]) for n in range(20)),
    )

    names = sorted(change.delivery.id for change in await kept(path))
    assert names == [f"d{n:02}" for n in range(20)]


async def test_a_place_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="No such file"):
        await FileJournal(tmp_path / "nowhere" / "journal").entries()

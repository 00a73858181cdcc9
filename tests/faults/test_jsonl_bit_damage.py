"""Damage of several bits of a JSONL store: the rest is read, no old state comes back (I24)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from uuid import UUID
from zlib import crc32

import pytest
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Delivery, Recipient
from homing.domain.writes import write_of_change
from homing.engine.process.alerts import QUARANTINED
from homing.ports import Batch, Existing, Put
from homing.stores.jsonl import JsonlStore
from homing.stores.jsonl.lines import seal
from homing.testing import samples
from homing.testing.samples import NOW_MS
from tests.faults.disks import in_memory
from tests.faults.jsonl_logs import opened
from tests.faults.syncs import recorded

# Far apart, as real ids are: a few bits do not make one of another.
WAITING, MARKED, DELIVERED, LAST = (str(UUID(int=Random(n).getrandbits(128))) for n in range(4))
BITS = [2, 8, 64]


@pytest.fixture
def queue() -> Iterator[Path]:
    """One delivery that waits, one that is being sent, one that was delivered, a last new one."""
    with in_memory() as folder:
        asyncio.run(make(folder / "queue.jsonl"))
        yield folder / "queue.jsonl"


async def make(queue: Path) -> None:
    store = JsonlStore(queue)
    await store.open()
    await store.add([samples.keyed(MARKED, "k-marked"), samples.keyed(DELIVERED, "k-delivered")])
    claimed = [one.delivery for one in await store.claim(samples.claim())]
    await store.add([samples.keyed(WAITING, "k-waiting", due_at_ms=NOW_MS + 1)])
    marks = [
        transitions.mark_committing(one, now_ms=NOW_MS, frozen={"frozen": b"x"}) for one in claimed
    ]
    await store.save(marks, [samples.fact("beat", kind="worker", n=1)])
    sent = await store.get(DELIVERED)
    assert sent is not None
    await store.save([samples.ended(sent)])
    await store.add([samples.keyed(LAST, "k-last")])
    await store.close()


class Files:
    """The files as they were made, to be damaged again and again."""

    def __init__(self, queue: Path) -> None:
        self.queue = queue
        self.folder = queue.with_name(f"{queue.name}.d")
        self.whole = queue.read_bytes()
        self.journal = (self.folder / "journal.jsonl").read_bytes()
        with opened(queue) as log:
            self.before = dict(log.index.deliveries.items())

    def put(self, *, queue: bytes | None = None, journal: bytes | None = None) -> None:
        for copy in self.folder.glob("damaged-*"):
            copy.unlink()
        self.queue.write_bytes(self.whole if queue is None else queue)
        (self.folder / "journal.jsonl").write_bytes(self.journal if journal is None else journal)


def damaged(data: bytes, place: int, bits: int) -> bytes:
    """So many bits in a row are flipped, as far as there are any."""
    changed = bytearray(data)
    for bit in range(place * 8, min(place * 8 + bits, len(data) * 8)):
        changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)


def damage(queue: Path, text: bytes, after: int, *, behind: bytes = b"") -> None:
    whole = queue.read_bytes()
    place = whole.index(text, whole.index(behind))
    queue.write_bytes(damaged(whole, place + after, 64))


def garble_last_but_one(queue: Path, text: bytes) -> None:
    """Nothing of that line, which has this text, can be read any more."""
    *lines, line, last = queue.read_bytes().splitlines(keepends=True)
    assert text in line
    queue.write_bytes(b"".join([*lines, b"x" * (len(line) - 1), b"\n", last]))


def is_held(delivery: Delivery) -> bool:
    return (delivery.state, delivery.failed_because) == ("failed", "uncertain")


def is_believed(found: Delivery, before: Delivery) -> bool:
    """As it was; a claim that was not renewed looks the same."""
    return (found.state, found.version, found.committing) == (
        before.state,
        before.version,
        before.committing,
    )


def hit(data: bytes, place: int, bits: int) -> set[str]:
    """The deliveries whose lines these bits are in."""
    ids, start = set(), 0
    for line in data.splitlines(keepends=True):
        if start <= place + (bits - 1) // 8 and place < start + len(line):
            ids |= {one for one in (WAITING, MARKED, DELIVERED, LAST) if one.encode() in line}
        start += len(line)
    return ids


@pytest.mark.parametrize("bits", BITS)
def test_bits_in_a_row_at_any_byte_hold_only_what_they_are_about_i24(
    queue: Path, bits: int
) -> None:
    files = Files(queue)
    lost = 0
    for place in range(len(files.whole)):
        files.put(queue=damaged(files.whole, place, bits))
        with opened(queue) as log:
            after = dict(log.index.deliveries.items())
            assert len(log.index.facts[QUARANTINED]) == 1, place
        assert len(list(files.folder.glob("damaged-*"))) == 1, place
        concerned = hit(files.whole, place, bits)
        for delivery_id, before in files.before.items():
            if delivery_id not in after:
                # Of a new one whose only line cannot be read, the copy is left.
                assert delivery_id in concerned, place
                assert delivery_id in (WAITING, LAST), place
                lost += 1
            elif delivery_id in concerned:
                found = after[delivery_id]
                assert is_held(found) or is_believed(found, before), (place, found)
            else:
                assert is_believed(after[delivery_id], before), place
        with opened(queue) as log:
            again = {one.id: one.version for one in log.index.deliveries.values()}
            assert again == {one.id: one.version for one in after.values()}
            assert len(log.index.facts[QUARANTINED]) == 1, place
    assert lost < len(files.whole) / 4


@pytest.mark.parametrize("bits", BITS)
def test_scattered_bits_bring_back_no_old_state_i24(queue: Path, bits: int) -> None:
    files, random = Files(queue), Random(11)
    starts = [0, *(n + 1 for n, byte in enumerate(files.whole) if byte == ord("\n"))]
    for start, end in pairwise(starts):
        for _ in range(60):
            changed = bytearray(files.whole)
            for bit in random.sample(range(start * 8, end * 8), bits):
                changed[bit // 8] ^= 1 << (bit % 8)
            files.put(queue=bytes(changed))
            with opened(queue) as log:
                assert log.index.facts[QUARANTINED]
                for delivery_id, before in files.before.items():
                    found = log.index.deliveries.get(delivery_id)
                    if found is None:
                        assert before.version == 1
                    else:
                        assert is_held(found) or is_believed(found, before)


@pytest.mark.parametrize("bits", BITS)
def test_a_damaged_journal_leaves_every_delivery_as_it_was_or_held_i24(
    queue: Path, bits: int
) -> None:
    files = Files(queue)
    for place in range(len(files.journal)):
        files.put(journal=damaged(files.journal, place, bits))
        with opened(queue) as log:
            assert len(log.index.facts[QUARANTINED]) == 1, place
            for delivery_id, before in files.before.items():
                found = log.index.deliveries[delivery_id]
                assert is_held(found) or is_believed(found, before)
        with opened(queue) as log:
            assert len(log.index.facts[QUARANTINED]) == 1, place


async def test_the_key_of_a_held_delivery_stays_taken(queue: Path) -> None:
    """Its first line, which has taken the key, is damaged; a repeated request is not sent."""
    damage(queue, b'"created_at_ms"', 3)
    store = JsonlStore(queue)
    await store.open()

    [answer] = await store.add([samples.keyed("again", "k-marked")])

    assert isinstance(answer, Existing)
    assert answer.delivery_id == MARKED
    found = await store.get(MARKED)
    assert found is not None
    assert is_held(found)
    assert (await store.claim(samples.claim(now_ms=NOW_MS + 10**9))) != []
    assert (await store.get(MARKED)) == found
    await store.close()


async def test_what_a_person_has_decided_of_a_held_one_stays(queue: Path) -> None:
    """Its first line is missing for ever: that is no reason to hold it again at each opening."""
    damage(queue, b'"created_at_ms"', 3)
    store = JsonlStore(queue)
    await store.open()
    held = await store.get(MARKED)
    assert held is not None
    assert is_held(held)
    await store.save([samples.reopened(held)])
    await store.close()

    again = JsonlStore(queue)
    await again.open()

    found = await again.get(MARKED)
    assert found is not None
    assert found.state == "pending"
    assert len(await again.facts(QUARANTINED)) == 1
    await again.close()


async def test_the_key_of_a_new_delivery_stays_taken_if_only_its_payload_is_damaged(
    queue: Path,
) -> None:
    damage(queue, b'"payload":"', len(b'"payload":"'), behind=WAITING.encode())
    store = JsonlStore(queue)
    await store.open()

    [answer] = await store.add([samples.keyed("again", "k-waiting")])

    assert isinstance(answer, Existing)
    assert answer.delivery_id == WAITING
    found = await store.get(WAITING)
    assert found is not None
    assert is_held(found)
    await store.close()


async def test_who_may_have_the_mail_is_shown_as_such(queue: Path) -> None:
    """The damaged line was about a send."""
    store = JsonlStore(queue)
    await store.open()
    people = tuple(Recipient(f"{name}@example.org") for name in ("ann", "bob"))
    await store.add([samples.new("mail", queue="mail/other", recipients=people)])
    [held] = await store.claim(samples.claim(queues=("mail/other",)))
    mark = transitions.mark_committing(held.delivery, now_ms=NOW_MS, frozen={"frozen": b"x"})
    await store.save([mark])
    await store.close()
    damage(queue, b'"committing"', 0, behind=b'{"id":"mail"')

    store = JsonlStore(queue)
    await store.open()
    found = await store.get("mail")
    await store.close()

    assert found is not None
    assert is_held(found)
    assert [each.outcome for each in found.recipients] == ["maybe", "maybe"]
    assert found.notices_due == ("dead_letter", "alert")


async def test_one_that_misses_a_line_in_between_is_held(queue: Path) -> None:
    """That line may have had its newest payload: the old one must not be sent."""
    store = JsonlStore(queue)
    await store.open()
    await store.add([samples.new("amended", queue="mail/other")])
    claim = samples.claim(queues=("mail/other",))
    [held] = await store.claim(claim)
    await store.save([replace(samples.retry(held.delivery), payload=b"corrected")])
    await store.claim(claim)
    await store.close()
    garble_last_but_one(queue, b'"payload"')

    with opened(queue) as log:
        assert is_held(log.index.deliveries["amended"])


async def test_one_that_was_changed_twice_in_a_batch_misses_no_line(queue: Path) -> None:
    store = JsonlStore(queue)
    await store.open()
    marked = await store.get(MARKED)
    assert marked is not None
    once, again = samples.retry(marked), replace(marked, version=marked.version + 1)
    writes = [write_of_change(change) for change in (once, samples.retry(again))]
    assert (await store.commit(Batch(puts=[Put(writes)]))).puts == [[True, True]]
    expected = await store.get(MARKED)
    await store.close()
    damage(queue, WAITING.encode(), 60)

    with opened(queue) as log:
        assert is_held(log.index.deliveries[WAITING])
        assert log.index.deliveries[MARKED] == expected


async def test_damaged_bytes_are_on_the_disk_as_a_copy_before_they_are_overwritten(
    queue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(queue, WAITING.encode(), 200)
    calls = recorded(monkeypatch)
    with opened(queue):
        monkeypatch.undo()

    folder = queue.with_name(f"{queue.name}.d")
    copied = calls.index(("fsync", folder / "damaged-1"))
    assert copied < calls.index(("fsync", folder)) < calls.index(("fsync", queue))


async def test_a_line_that_is_damaged_while_the_store_is_open_is_set_aside(queue: Path) -> None:
    store = JsonlStore(queue)
    await store.open()
    damage(queue, WAITING.encode(), 200)

    content = await store.content(WAITING)

    assert content is not None
    assert content.payload == b""
    found = await store.get(WAITING)
    assert found is not None
    assert is_held(found)
    assert len(await store.facts(QUARANTINED)) == 1
    await store.close()


def test_a_block_of_zeros_holds_all_that_it_may_have_been_about(queue: Path) -> None:
    files = Files(queue)
    start = files.whole.index(b"\n") + 1
    end = start + 400
    files.put(queue=files.whole[:start] + bytes(end - start) + files.whole[end:])
    with opened(queue) as log:
        after = dict(log.index.deliveries.items())
    assert all(
        is_held(found) or is_believed(found, files.before[found.id]) for found in after.values()
    )
    shutil.rmtree(files.folder, ignore_errors=True)


@pytest.mark.parametrize("size", [700, 1500, 4096])
@pytest.mark.parametrize("what", ["zeros", "ones", "random"])
def test_a_block_over_several_lines_brings_back_no_old_state_i24(
    queue: Path, what: str, size: int
) -> None:
    """It hides whole lines, and may begin and end in lines of others."""
    files, random = Files(queue), Random(size)
    blocks = {"zeros": bytes(size), "ones": b"\xff" * size, "random": random.randbytes(size)}
    for start in range(0, len(files.whole) - size, 97):
        changed = files.whole[:start] + blocks[what] + files.whole[start + size :]
        files.put(queue=changed)
        with opened(queue) as log:
            assert log.index.facts[QUARANTINED], start
            for delivery_id, before in files.before.items():
                found = log.index.deliveries.get(delivery_id)
                if found is None:
                    # Of a new one, or one all of whose lines were hit, the copy is left.
                    assert delivery_id in hit(files.whole, start, size * 8), start
                else:
                    assert is_held(found) or is_believed(found, before), (start, found)


def test_an_old_line_that_was_copied_to_the_end_is_set_aside(queue: Path) -> None:
    files = Files(queue)
    first = next(one for one in files.whole.splitlines(True) if DELIVERED.encode() in one)
    # As the only line of its commit: then nothing of it is missing.
    old = first.replace(b'"more":1,', b"").replace(b'"more":0,', b"")
    body = old[: old.rindex(b',"sum":"')]
    files.put(queue=files.whole + body + seal(crc32(body)) + b"\n")

    with opened(queue) as log:
        assert log.index.deliveries[DELIVERED] == files.before[DELIVERED]
        assert log.index.deliveries == files.before
        assert len(log.index.facts[QUARANTINED]) == 1
    assert (files.folder / "damaged-1").read_bytes() == body + seal(crc32(body)) + b"\n"


def test_old_lines_that_lie_over_others_hold_what_they_may_have_hidden(queue: Path) -> None:
    files = Files(queue)
    start = files.whole.index(WAITING.encode()) - 40
    block = files.whole[:1200]
    files.put(queue=files.whole[:start] + block + files.whole[start + len(block) :])
    with opened(queue) as log:
        for found in log.index.deliveries.values():
            assert is_held(found) or is_believed(found, files.before[found.id]), found


def test_lines_of_other_text_hold_nothing(queue: Path) -> None:
    files = Files(queue)
    end = files.whole.index(b"\n") + 1
    files.put(queue=files.whole[:end] + b"hello there\n" + files.whole[end:])
    with opened(queue) as log:
        after = dict(log.index.deliveries.items())
        assert len(log.index.facts[QUARANTINED]) == 1
    assert after == files.before
    assert b"hello" not in queue.read_bytes()

"""What the files of a JSONL store look like, and what other programs may do with them."""

from __future__ import annotations

import asyncio
import fcntl
import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from homing import Email, Homing
from homing.domain.delivery import Delivery, Fact, Receipt
from homing.domain.errors import StoreLocked
from homing.ports import Added, PurgeRule
from homing.providers.stub import read_ledger
from homing.stores.jsonl import JsonlStore
from homing.testing import samples
from homing.testing.contract.foreign import FOREIGN, foreign_projection
from homing.testing.samples import LEASE_MS, NOW_MS


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    return tmp_path / "queue.jsonl"


@pytest_asyncio.fixture
async def store(queue: Path) -> AsyncIterator[JsonlStore]:
    opened = JsonlStore(queue, lock_within_s=0.05)
    opened.show(foreign_projection())
    await opened.open()
    yield opened
    await opened.close()


def content(queue: Path) -> bytes:
    return queue.read_bytes()


def lines(queue: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in queue.read_text().splitlines()]


async def test_a_line_has_the_fields_of_the_layout_and_one_object_of_homing_o_008(
    store: JsonlStore, queue: Path
) -> None:
    await store.add([samples.keyed("d1", "k", payload=b"body")])
    [held] = await store.claim(samples.claim())
    failed = replace(held.delivery, attempts_spent=1)
    await store.save([replace(samples.retry(failed), ended=(samples.attempt("d1"),))])

    found = lines(queue)

    assert [tuple(line) for line in found] == [(*FOREIGN.fields, "_homing")] * 3
    assert [line["status"] for line in found] == ["QUEUED", "RUNNING", "RETRYING"]
    assert len({line["text"] for line in found}) == 1
    assert [line["_homing"]["delivery"].get("version", 1) for line in found] == [1, 2, 3]


async def test_the_queue_is_only_appended_to_o_043_o_075(store: JsonlStore, queue: Path) -> None:
    await store.add(samples.many(3))
    before = content(queue)

    claimed = await store.claim(samples.claim())
    await store.save([samples.ended(one.delivery) for one in claimed])
    await store.purge(PurgeRule(what="delivery", before_ms=NOW_MS + 1))

    assert content(queue).startswith(before)
    assert await store.get("d00000") is None


async def test_only_deliveries_are_in_the_queue(store: JsonlStore, queue: Path) -> None:
    """Longer leases, keys, attempts and facts lie beside it."""
    await store.add([samples.keyed("d1", "k")])
    [held] = await store.claim(samples.claim())
    before = content(queue)

    await store.save([], facts=[samples.fact("heartbeat")])
    await store.renew("w1", [("d1", held.delivery.version)], NOW_MS + 2 * LEASE_MS)

    assert content(queue) == before
    assert b"heartbeat" in (queue.parent / "queue.jsonl.d" / "journal.jsonl").read_bytes()


async def test_every_file_is_for_its_owner_alone(store: JsonlStore, queue: Path) -> None:
    await store.add(samples.many(1))

    files = [path for path in queue.parent.rglob("*") if path.is_file()]

    assert len(files) >= 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    folders = [path for path in queue.parent.rglob("*") if path.is_dir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}


async def test_without_the_lock_nothing_is_written_o_101_o_102(
    store: JsonlStore, queue: Path
) -> None:
    await store.add(samples.many(1))
    before = content(queue)
    with (queue.parent / "queue.jsonl.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        with pytest.raises(StoreLocked):
            await store.add([samples.new("late")])

        assert content(queue) == before
        assert await store.get("d00000") is not None
    assert await store.add([samples.new("late")]) == [Added("late")]


async def test_requests_that_change_nothing_hide_nothing_that_others_write(
    store: JsonlStore, queue: Path
) -> None:
    """They use up no number of a commit: the next one of another process would seem known."""
    other = JsonlStore(queue)
    await other.open()
    await asyncio.gather(
        store.save([], [samples.fact("ours", kind="paused")]),
        *(store.claim(samples.claim()) for _ in range(5)),
    )

    await other.save([], [samples.fact("theirs", kind="paused")])

    assert {fact.key for fact in await store.facts("paused")} == {"ours", "theirs"}
    await other.close()


async def test_a_lock_that_is_free_in_time_is_waited_for(queue: Path) -> None:
    store = JsonlStore(queue)
    await store.open()
    with (queue.parent / "queue.jsonl.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = asyncio.ensure_future(store.add(samples.many(1)))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
    assert await waiting == [Added("d00000")]
    await store.close()


async def test_lines_of_other_programs_are_taken_once(store: JsonlStore, queue: Path) -> None:
    await store.add(samples.many(1))
    with queue.open("ab") as file:
        file.write(b'{"number":"f1"}\n{"number":"f2"}\n')

    first, second = await store.foreign_lines()
    assert (first.data, second.data) == (b'{"number":"f1"}', b'{"number":"f2"}')
    await store.add([samples.new("f1")], facts=[first.taken])

    assert await store.foreign_lines() == [second]
    again = JsonlStore(queue)
    await again.open()
    assert await again.foreign_lines() == [second]
    await again.save([], facts=[second.taken, Fact("malformed", "f2", NOW_MS)])
    assert await again.foreign_lines() == []
    assert await again.get("f1") is not None
    await again.close()


async def test_the_log_is_asked_under_the_lock_of_the_queue_o_103_o_114(queue: Path) -> None:
    free: list[bool] = []

    class Asking:
        def receipt_of(self, delivery: Delivery) -> Receipt | None:
            del delivery
            with (queue.parent / "queue.jsonl.lock").open() as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    free.append(False)
                else:
                    free.append(True)
            return None

    store = JsonlStore(queue)
    store.ask(Asking())
    await store.open()
    await store.add([samples.new("d1"), samples.new("d2", state="in_flight")])
    await store.claim(samples.claim())
    await store.close()

    assert free == [False, False, False]


class Noted:
    """All mail to Ann was accepted before."""

    def receipt_of(self, delivery: Delivery) -> Receipt | None:
        if delivery.recipients[0].address == "ann@example.org":
            return Receipt(evidence="lookup", detail="in the log")
        return None


@pytest.mark.parametrize("inline", [True, False])
async def test_a_claim_finds_evidence_in_the_same_commit_o_113(
    tmp_path: Path, *, inline: bool
) -> None:
    store = JsonlStore(tmp_path / "queue.jsonl")
    store.ask(Noted())
    ledger = tmp_path / "ledger.jsonl"
    async with Homing(store, provider=f"stub:?ledger={ledger}", sender="us@example.org") as homing:
        enter = homing.send if inline else homing.submit
        tickets = [
            await enter(Email(to=f"{name}@example.org", subject="Hi", text="Hi"), key=name)
            for name in ("ann", "bob")
        ]
        await until_delivered(homing, [ticket.delivery.id for ticket in tickets])
        found = await homing.ops.show(tickets[0].delivery.id)
    assert found.receipt is not None
    assert found.receipt.detail == "in the log"
    assert [entry.recipients for entry in read_ledger(ledger)] == [("bob@example.org",)]


async def until_delivered(homing: Homing, ids: list[str]) -> None:
    async with asyncio.timeout(10):
        for delivery_id in ids:
            while (await homing.ops.show(delivery_id)).state != "delivered":
                await homing.store.wait(0.01)

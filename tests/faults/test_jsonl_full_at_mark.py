"""A disk that is full when a send is about to be marked: its caller is answered at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from homing import Email, Homing
from homing.domain.errors import StoreFull
from homing.domain.failure import Failure
from homing.ports import Answers, Batch, Envelope
from homing.providers.stub import StubProvider, StubSend
from homing.stores.jsonl import JsonlStore
from tests.faults.disks import SmallDisk, small_disk

SIZE = 4 * 1024 * 1024
# The mark keeps the bytes that are sent: they need more than the rest of a block.
TEXT = "Hello. " * 4000
# Far less than the lease, after which the caller would be answered in any case.
LONGEST_S = 20.0


class Filling(StubProvider):
    """The disk fills up while a send is prepared: it is recorded, and not marked yet."""

    def __init__(self, disk: SmallDisk) -> None:
        super().__init__()
        self._disk = disk
        self.is_full = False

    async def prepare(self, envelope: Envelope) -> StubSend | Failure:
        if not self.is_full:
            self.is_full = True
            self._disk.fill()
        return await super().prepare(envelope)


class Telling(StubProvider):
    """Says when a send has begun."""

    def __init__(self, *, latency_s: float) -> None:
        super().__init__(latency_s=latency_s)
        self.is_sending = asyncio.Event()

    def leave(self, envelope: Envelope) -> None:
        super().leave(envelope)
        self.is_sending.set()


async def test_its_callers_are_answered_and_it_is_sent_once_with_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", SIZE) as disk:
        provider = Filling(disk)
        store = JsonlStore(disk.folder / "queue.jsonl")
        async with Homing(store, provider=provider, sender="us@example.org") as homing:
            mail = Email(to="ann@example.org", subject="Hi", text=TEXT)
            async with asyncio.timeout(LONGEST_S):
                ticket = await homing.send(mail, key="first")
                assert ticket.delivery.state == "in_flight"
                assert not ticket.delivery.committing
                assert not provider.calls
                # The next one is not even recorded, and does not wait for the first.
                with pytest.raises(StoreFull):
                    await homing.send(mail, key="second")
            disk.free()
            async with asyncio.timeout(LONGEST_S):
                while (await homing.ops.show(ticket.delivery.id)).state != "delivered":
                    await store.wait(0.05)
        assert len(provider.calls) == 1


async def test_marks_that_wait_behind_an_outcome_are_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outcome is repeated until there is room; callers who have sent nothing do not wait."""
    store = JsonlStore(tmp_path / "queue.jsonl")
    provider = Telling(latency_s=0.05)
    is_full = False
    commit = store.commit

    async def refusing(batch: Batch) -> Answers:
        if is_full and any(put.kind == "save" for put in batch.puts):
            raise StoreFull("queue.jsonl: no room")
        return await commit(batch)

    monkeypatch.setattr(store, "commit", refusing)
    async with Homing(store, provider=provider, sender="us@example.org") as homing:
        mail = Email(to="ann@example.org", subject="Hi", text="Hi")
        sent = asyncio.ensure_future(homing.send(mail, key="sent"))
        await provider.is_sending.wait()
        is_full = True
        async with asyncio.timeout(LONGEST_S):
            ticket = await homing.send(mail, key="not sent")
        assert ticket.delivery.state == "in_flight"
        assert not sent.done()
        is_full = False
        async with asyncio.timeout(LONGEST_S):
            assert (await sent).delivery.state == "delivered"
            while (await homing.ops.show(ticket.delivery.id)).state != "delivered":
                await store.wait(0.05)
    assert len(provider.calls) == 2

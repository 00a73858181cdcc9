"""A store that is kept locked: a stop holds its grace, and what was not sent is not in doubt."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from homing.domain.message import Email
from homing.ports import Answers, Batch, Query
from homing.runtime.app import Homing
from homing.runtime.mail_route import SEND_TIMEOUT_S, mail_route
from homing.stores.emergency import FileJournal
from homing.stores.sql.sqlite import SqliteStore
from tests.faults.locked_file import GatedProvider, locked
from tests.unit.engine.world import quiet

MAIL = Email(to="ann@example.org", subject="Booked", text="See you")
# Far below the lease (60 s), after which the outcome was journaled without a stop as well.
BOUND_S = 25.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db"


def homing_over(path: Path, provider: GatedProvider) -> Homing:
    route = mail_route(provider, sender="us@example.org")
    return Homing(f"sqlite:///{path}", routes=(route,))


async def test_at_a_stop_the_journal_takes_what_the_store_refuses_within_the_grace(
    path: Path,
) -> None:
    provider = GatedProvider()
    provider.may_prepare.set()
    homing = homing_over(path, provider)
    await homing.start()
    ticket = await homing.submit(MAIL)
    await provider.sending.wait()

    async with locked(path):
        provider.may_answer.set()
        async with asyncio.timeout(BOUND_S):
            await homing.stop(grace_s=2.0)

    [kept] = await FileJournal(path.with_name("outbox.db.emergency")).entries()
    assert (kept.delivery.id, kept.delivery.state) == (ticket.delivery_id, "delivered")
    async with homing_over(path, provider) as again:
        assert (await again.ops.show(ticket.delivery_id)).state == "delivered"
    assert provider.sent == [ticket.delivery_id]


async def test_a_mark_that_is_written_late_makes_no_doubt(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time limit would end while the mark waits for a locked file: nothing was sent."""
    provider = GatedProvider()
    marking = mark_of(monkeypatch)
    async with homing_over(path, provider) as homing:
        ticket = await homing.submit(MAIL)
        await provider.preparing.wait()
        async with locked(path):
            provider.may_prepare.set()
            await marking.wait()
            let_pass(SEND_TIMEOUT_S + 1, monkeypatch)
            await quiet()
            assert provider.sent == []
        await provider.sending.wait()
        await quiet()
        provider.may_answer.set()
        await settled(homing, ticket.delivery_id)

        delivery = await homing.ops.show(ticket.delivery_id)
        attempts = await homing.ops.attempts(ticket.delivery_id)

    assert delivery.state == "delivered"
    assert not [attempt for attempt in attempts if attempt.maybe_sent]
    assert provider.sent == [ticket.delivery_id]


def mark_of(patch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when the mark of a send is on its way to the store."""
    marking = asyncio.Event()
    commit = SqliteStore.commit

    async def noted(store: SqliteStore, batch: Batch) -> Answers:
        if any(write.delivery.committing for put in batch.puts for write in put.writes):
            marking.set()
        return await commit(store, batch)

    patch.setattr(SqliteStore, "commit", noted)
    return marking


def let_pass(seconds: float, patch: pytest.MonkeyPatch) -> None:
    """On the clock of the loop, by which time limits go."""
    loop = asyncio.get_running_loop()
    now = loop.time
    patch.setattr(loop, "time", lambda: now() + seconds)


async def settled(homing: Homing, delivery_id: str) -> None:
    """Until the attempt has an outcome, and nobody holds the delivery."""
    async with asyncio.timeout(BOUND_S):
        while (await homing.ops.show(delivery_id)).state == "in_flight":  # noqa: ASYNC110 - another task settles it
            await asyncio.sleep(0.01)
    page = await homing.store.page(Query())
    assert len(page.items) == 1

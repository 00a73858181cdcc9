"""A store that is kept locked: a stop holds its grace, and what was not sent is not in doubt."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from homing.app import Homing
from homing.domain.message import Email
from homing.engine.route import Route
from homing.mail_route import mail_route
from homing.ports import Query
from homing.stores.emergency import FileJournal
from tests.faults.locked_file import GatedProvider, locked

MAIL = Email(to="ann@example.org", subject="Booked", text="See you")
# Far below the lease (60 s), after which the outcome was journaled without a stop as well.
BOUND_S = 25.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db"


def homing_over(path: Path, provider: GatedProvider, timeout_s: float | None = None) -> Homing:
    route = mail_route(provider, sender="us@example.org")
    if timeout_s is not None:
        route = with_time_limit(route, timeout_s)
    return Homing(f"sqlite:///{path}", routes=(route,))


def with_time_limit(route: Route, timeout_s: float) -> Route:
    stages = tuple(replace(stage, timeout_s=timeout_s) for stage in route.plan.stages)
    return replace(route, plan=replace(route.plan, stages=stages))


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
        assert (await again.desk.show(ticket.delivery_id)).state == "delivered"
    assert provider.sent == [ticket.delivery_id]


async def test_a_mark_that_is_written_late_makes_no_doubt(path: Path) -> None:
    """The time limit ends while the mark waits for a locked file: nothing was sent."""
    provider = GatedProvider()
    provider.may_answer.set()
    async with homing_over(path, provider, timeout_s=0.5) as homing:
        ticket = await homing.submit(MAIL)
        await provider.preparing.wait()
        async with locked(path):
            provider.may_prepare.set()
            await asyncio.sleep(1.5)  # longer than the time limit, shorter than the busy timeout
            assert provider.sent == []
        await settled(homing, ticket.delivery_id)

        delivery = await homing.desk.show(ticket.delivery_id)
        attempts = await homing.desk.attempts(ticket.delivery_id)

    assert delivery.failed_because is None
    assert not [attempt for attempt in attempts if attempt.maybe_sent]
    assert len(provider.sent) <= 1


async def settled(homing: Homing, delivery_id: str) -> None:
    """Until the attempt has an outcome, and nobody holds the delivery."""
    async with asyncio.timeout(BOUND_S):
        while (await homing.desk.show(delivery_id)).state == "in_flight":  # noqa: ASYNC110 - another task settles it
            await asyncio.sleep(0.01)
    page = await homing.store.page(Query())
    assert len(page.items) == 1

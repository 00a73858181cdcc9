"""`homing.testing.outbox`: an application's tests run on a real engine, around its own Homing."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from homing import Email, Event, HandlerCall, Homing, NotAllowed
from homing.testing.outbox import Outbox, SyncOutbox

MAIL = Email(to="ann@example.org", subject="Booked", text="See you Monday")


def shop(folder: Path) -> Homing:
    """As a module of an application has it."""
    return Homing(
        folder / "outbox.db",
        provider="smtp://user:secret@mail.example.org:587",
        sender="Shop <shop@example.org>",
    )


async def test_an_application_runs_on_the_outbox_and_is_as_before_afterwards(
    tmp_path: Path,
) -> None:
    homing = shop(tmp_path)
    handled: list[object] = []
    homing.on("invoice.paid")(lambda event: handled.append(event.data))
    store, provider = homing.store, homing.provider

    async with Outbox(homing) as outbox:
        assert outbox.homing is homing
        await homing.send(MAIL, key="booking-42")
        await homing.submit(Event("invoice.paid", {"number": 7}))
        await outbox.run()

    [mail] = outbox.delivered_to("ann@example.org")
    assert mail["From"] == "Shop <shop@example.org>"
    assert handled == [{"number": 7}]
    assert (homing.store, homing.provider) == (store, provider)
    assert not (tmp_path / "outbox.db").exists()
    async with Outbox(homing) as again:
        assert await again.all() == [], "every test begins with an empty store"


def test_plain_code_keeps_its_sync_side(tmp_path: Path) -> None:
    homing = shop(tmp_path)
    sync = homing.sync

    with SyncOutbox(homing) as outbox:
        sync.submit(MAIL, key="booking-42")
        outbox.run()
        assert len(outbox.delivered_to("ann@example.org")) == 1

    assert list(tmp_path.iterdir()) == []


async def test_a_running_application_is_not_taken_over(tmp_path: Path) -> None:
    homing = Homing(tmp_path / "outbox.db", provider="stub:")
    async with homing:
        with pytest.raises(NotAllowed, match="is running already"):
            await Outbox(homing).__aenter__()
        assert (await homing.send(MAIL)).delivery.state == "delivered"


async def test_without_mail_there_is_no_mail_route() -> None:
    homing = Homing("memory:")

    @homing.on("paid")
    async def book(event: HandlerCall) -> None: ...

    async with Outbox(homing):
        assert not homing.works_on("mail")


async def test_doubt_is_resolved_by_a_second_send_unless_it_is_to_be_held() -> None:
    async with Outbox() as outbox:
        outbox.answer("maybe")
        sent = await outbox.homing.send(MAIL, key="booking-42")
        await outbox.advance(minutes=1)
        delivery = await outbox.homing.ops.show(sent.delivery_id)
        assert (delivery.state, delivery.maybe_duplicate) == ("delivered", True)
        assert len(outbox.provider.ledger.entries) == 2

    async with Outbox(Homing("memory:", provider="stub:", on_unknown="hold")) as outbox:
        outbox.answer("maybe")
        sent = await outbox.homing.send(MAIL, key="booking-42")
        await outbox.advance(minutes=1)
        [held] = await outbox.dead()
        assert (held.id, held.failed_because) == (sent.delivery_id, "uncertain")
        assert len(outbox.provider.ledger.entries) == 1


async def test_code_that_submits_inside_its_transaction_can_be_tested(tmp_path: Path) -> None:
    homing = shop(tmp_path)
    async with Outbox(homing) as outbox:
        with sqlite3.connect(":memory:") as connection:
            first = await homing.submit(MAIL, key="booking-42", within=connection)
            again = await homing.submit(MAIL, key="booking-42", within=connection)
        assert (first.created, again.created) == (True, False)
        await outbox.run()
        assert len(outbox.delivered_to("ann@example.org")) == 1


def test_plain_code_that_submits_inside_its_transaction_can_be_tested(tmp_path: Path) -> None:
    homing = shop(tmp_path)
    with SyncOutbox(homing) as outbox, sqlite3.connect(":memory:") as connection:
        homing.sync.submit(MAIL, key="booking-42", within=connection)
        outbox.run()
        homing.sync.submit(MAIL, key="booking-43", within=connection)
        outbox.run()
        assert len(outbox.delivered_to("ann@example.org")) == 2


def test_memory_itself_makes_no_promise_for_a_transaction() -> None:
    with pytest.raises(NotAllowed, match="inside your transaction"):
        Homing("memory:", provider="stub:").sync.submit(MAIL, within=object())

"""How an application tests what it sends: the fixture comes with `pip install homing[testing]`."""

import pytest

from homing import Email, Homing
from homing.testing.outbox import Outbox, SyncOutbox


async def book(homing: Homing, address: str) -> None:
    """The code under test: a booking that sends a mail."""
    email = Email(to=address, subject="Booked", text="See you Monday")
    await homing.send(email, key=f"booking-{address}")


@pytest.mark.asyncio
async def test_a_booking_is_confirmed(outbox: Outbox) -> None:
    await book(outbox.homing, "ann@example.org")
    [mail] = outbox.delivered_to("ann@example.org")
    assert mail["Subject"] == "Booked"


@pytest.mark.asyncio
async def test_a_booking_survives_an_outage_of_the_mail_server(outbox: Outbox) -> None:
    outbox.answer("503", "503")
    await book(outbox.homing, "ann@example.org")
    assert not outbox.delivered_to("ann@example.org")
    await outbox.advance(minutes=1)
    assert not outbox.delivered_to("ann@example.org")
    await outbox.advance(minutes=5)
    assert len(outbox.delivered_to("ann@example.org")) == 1


@pytest.mark.asyncio
async def test_a_wrong_address_stands_on_the_desk(outbox: Outbox) -> None:
    await book(outbox.homing, "bounce@stub.test")
    [dead] = await outbox.dead()
    assert dead.failed_because == "rejected"


def test_plain_code_uses_the_sync_side(sync_outbox: SyncOutbox) -> None:
    email = Email(to="bob@example.org", subject="Hello", text="Bob")
    sync_outbox.homing.sync.send(email, key="hello-bob")
    assert sync_outbox.delivered_to("bob@example.org")

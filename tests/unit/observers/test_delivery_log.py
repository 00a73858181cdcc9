"""The delivery log: a line for every success, once."""

from pathlib import Path

from homing.observers.delivery_log import DeliveryLog
from tests.unit.observers.events import CANARY, DELIVERY_ID, T0_MS, delivery


async def test_a_success_is_one_line_without_anything_of_the_customer(tmp_path: Path) -> None:
    log = DeliveryLog(tmp_path / "deliveries")
    delivered = delivery(state="delivered", ended_at_ms=T0_MS, attempts_ended=3)

    assert await log.notify("delivery_log", delivered, ())
    assert await log.notify("delivery_log", delivered, ())

    text = (tmp_path / "deliveries").read_text()
    assert text == (
        f"2027-01-15T08:00:00+00:00 DELIVERED delivery={DELIVERY_ID} cycle=1 route=mail"
        " attempts=3\n"
    )
    assert CANARY not in text


async def test_a_line_that_cannot_be_written_stays_owed(tmp_path: Path) -> None:
    log = DeliveryLog(tmp_path / "none" / "deliveries")

    assert not await log.notify("delivery_log", delivery(state="delivered"), ())

"""The delivery log: a line for every success, once."""

import os
from pathlib import Path

import pytest

from homing.observers.delivery_log import DeliveryLog
from homing.ports import Notice
from tests.unit.observers.events import CANARY, DELIVERY_ID, T0_MS, delivery


async def test_a_success_is_one_line_without_anything_of_the_customer(tmp_path: Path) -> None:
    log = DeliveryLog(tmp_path / "deliveries")
    delivered = delivery(state="delivered", ended_at_ms=T0_MS, attempts_ended=3)

    assert await log.notify("delivery_log", [Notice(delivered)]) == [True]
    assert await log.notify("delivery_log", [Notice(delivered)]) == [True]

    text = (tmp_path / "deliveries").read_text()
    assert text == (
        f"2027-01-15T08:00:00+00:00 DELIVERED delivery={DELIVERY_ID} cycle=1 route=mail"
        " attempts=3\n"
    )
    assert CANARY not in text


async def test_a_group_is_written_at_once_without_the_lines_that_a_crash_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process died between the lines and the marks of a group; more has ended since."""
    path = tmp_path / "deliveries"
    group = [Notice(delivery(id=f"d{number}", state="delivered")) for number in range(5)]
    await DeliveryLog(path).notify("delivery_log", group[:3])
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)

    assert await DeliveryLog(path).notify("delivery_log", group) == [True] * 5

    words = [line.split(" ")[2] for line in path.read_text().splitlines()]
    assert words == [f"delivery=d{number}" for number in range(5)]
    assert len(synced) == 1


async def test_a_line_that_cannot_be_written_stays_owed(tmp_path: Path) -> None:
    log = DeliveryLog(tmp_path / "none" / "deliveries")

    assert await log.notify("delivery_log", [Notice(delivery(state="delivered"))]) == [False]

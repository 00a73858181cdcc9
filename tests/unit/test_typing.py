"""What a type checker finds in a program that uses Homing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# `mypy --strict` reports an ignore that hides nothing: every line that is wrong must be found.
PROGRAM = """
from datetime import UTC, datetime
from pathlib import Path

from homing import (
    HandlerCall,
    Attempt,
    Delivery,
    DeliveryFilter,
    Email,
    Event,
    Fact,
    Homing,
    IdempotencyConflict,
    Page,
    BulkProgress,
    Ticket,
)

homing = Homing(Path("outbox.db"), provider="stub:", on_unknown="hold")
mail = Email(to="ann@example.org", text="See you Monday")


@homing.on("invoice.paid")
async def book_revenue(event: HandlerCall) -> str:
    return event.id


async def right() -> None:
    ticket: Ticket = await homing.submit(
        mail,
        key="booking-42",
        source="shop",
        priority=1,
        send_at=datetime(2030, 1, 1, tzinfo=UTC),
        expires_at=datetime(2030, 1, 2, tzinfo=UTC),
        metadata={"booking": "42"},
    )
    await homing.send(mail, key="booking-42", wait=False, priority=3)
    many: list[Ticket | IdempotencyConflict] = await homing.submit_many(
        [("a", mail), Event("invoice.paid", {"number": 7})], priority=3
    )
    homing.sync.submit(mail, key="booking-42", priority=3)
    homing.sync.send(mail, key="booking-42", priority=3)
    homing.sync.submit_many([("a", mail)], priority=3)
    delivery: Delivery = await homing.ops.show(ticket.delivery_id)
    page: Page = await homing.ops.list(DeliveryFilter(recipient="ann@example.org"))
    attempts: list[Attempt] = list(await homing.ops.attempts(delivery.id))
    audit: list[Fact] = list(await homing.ops.audit(delivery.id))
    progress: BulkProgress = await homing.bulk.show("1")
    print(many, page.next, attempts, audit, progress.done)


async def wrong() -> None:
    await homing.submit(mail, prioritty=3)  # type: ignore[call-arg]
    await homing.send(mail, prioritty=3)  # type: ignore[call-arg]
    await homing.submit_many([mail], prioritty=3)  # type: ignore[call-arg]
    homing.sync.submit(mail, prioritty=3)  # type: ignore[call-arg]
    homing.sync.send(mail, prioritty=3)  # type: ignore[call-arg]
    homing.sync.submit_many([mail], prioritty=3)  # type: ignore[call-arg]
    await homing.submit("hello")  # type: ignore[arg-type]
    await homing.submit(mail, key=5)  # type: ignore[arg-type]
    await homing.submit(mail, metadata={"a": 1})  # type: ignore[dict-item]
    await homing.submit(mail, send_at="tomorrow")  # type: ignore[arg-type]
    Homing(on_unknown="perhaps")  # type: ignore[arg-type]
"""


def test_mypy_finds_a_misspelt_option_and_accepts_the_right_ones(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert found.returncode == 0, found.stdout

"""CPU and bytes of log per delivery of the SQLite store's calls.

Run it by `python -m benchmarks.profile_store`. It measures processor time, which says something on
a busy machine too; compare two trees by running them in turn.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Change, Delivery, Key, New, Receipt, Recipient
from homing.domain.policy import Plan, Stage
from homing.ports import Claim
from homing.stores.sql.sqlite import SqliteStore, checkpoint

NOW_MS = 1_800_000_000_000
LATER_MS = NOW_MS + 1_000_000
PLAN = Plan(stages=(Stage(name="send"),))
DELIVERIES = 8192
ADD_GROUP = 1024
CLAIM_GROUP = 256
RUNS = 3
A = TypeVar("A")
T = TypeVar("T")


class Meter:
    """Processor time of all threads and growth of the log, by call."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.cpu_s: dict[str, float] = defaultdict(float)
        self.log_bytes: dict[str, int] = defaultdict(int)
        self.file_bytes = 0

    async def measure(self, name: str, call: Callable[[A], Awaitable[T]], argument: A) -> T:
        size, started_s = self._log.stat().st_size, time.process_time()
        answer = await call(argument)
        self.cpu_s[name] += time.process_time() - started_s
        self.log_bytes[name] += self._log.stat().st_size - size
        return answer


def new(number: int, *, mail: bool) -> New:
    at_ms, key = NOW_MS + number // 50, f"booking-{number}"
    delivery_id = str(
        uuid.UUID(int=at_ms << 80 | uuid.uuid4().int >> 48)
    )  # as admission's: by time
    delivery = Delivery(
        id=delivery_id,
        route="mail",
        queue="mail",
        stage="send",
        created_at_ms=at_ms,
        updated_at_ms=at_ms,
        due_at_ms=at_ms,
        source="shop",
        key=key,
        fingerprint=uuid.uuid4().hex,
        recipients=(Recipient(f"ann{number % 1000}@example.org"),) if mail else (),
    )
    return New(delivery, b"x" * 120, (Key("shop", key, delivery_id, delivery.fingerprint),))


def success(held: Delivery, *, mail: bool) -> Change:
    receipt = Receipt(f"accepted as {held.id[:8]}") if mail else None
    return transitions.succeed(held, plan=PLAN, now_ms=LATER_MS + 5, roll=0.5, receipt=receipt)


async def drain(store: SqliteStore, meter: Meter, *, mail: bool) -> None:
    claim = Claim(
        worker="host-1234-abcdef12",
        now_ms=LATER_MS,
        lease_until_ms=LATER_MS + 90_000,
        limit=CLAIM_GROUP,
        queues=("mail",),
    )
    while claimed := await meter.measure("claim", store.claim, claim):
        held = [one.delivery for one in claimed]
        if mail:
            frozen = {"frozen": b"From: x" * 60}
            marks = [
                transitions.mark_committing(one, now_ms=LATER_MS, frozen=frozen) for one in held
            ]
            await meter.measure("mark", store.save, marks)
            held = [replace(one.delivery, version=one.delivery.version + 1) for one in marks]
        ends = [success(one, mail=mail) for one in held]
        await meter.measure("save", store.save, ends)


async def run(*, mail: bool) -> Meter:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "outbox.db")
        await store.open()
        meter = Meter(store.path.with_name("outbox.db-wal"))
        some = [new(number, mail=mail) for number in range(DELIVERIES)]
        for start in range(0, DELIVERIES, ADD_GROUP):
            group = some[start : start + ADD_GROUP]
            await meter.measure("add", store.add, group)
        await drain(store, meter, mail=mail)
        await store.close()
        meter.file_bytes = store.path.stat().st_size
        return meter


def main() -> None:
    checkpoint.PAGES = sys.maxsize >> 32  # so that the log only grows
    for mail in (False, True):
        meters = [asyncio.run(run(mail=mail)) for _ in range(RUNS)]
        print("mail" if mail else "event")
        for call, size in meters[0].log_bytes.items():
            cpu_s = min(meter.cpu_s[call] for meter in meters)
            print(f"  {call:6}{cpu_s / DELIVERIES * 1e6:6.1f} µs {size / DELIVERIES:6.0f} B")
        print(f"  file            {meters[0].file_bytes / DELIVERIES:6.0f} B")


if __name__ == "__main__":
    main()

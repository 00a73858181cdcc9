"""What open pages take from the engine: a backlog is worked off without and with one, in turn.

Deliveries are stored first and become due at one moment. Compared are the medians of how many the
serving process delivers in a second, and its CPU time per delivery, which other programs on the
machine bend less.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from homing.domain.message import Email
from homing.runtime.app import Homing
from tests.browser.load_meters import cpu_s
from tests.browser.load_viewers import viewers
from tests.unit.web.served import Served

DUE_IN_MS = 4_000
LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Worked:
    per_s: float
    cpu_us: float


def run_backlogs(served: Served, url: str, mails: int, rounds: int) -> None:
    without: list[Worked] = []
    beside: list[Worked] = []
    for _ in range(rounds):
        without.append(_work_off(served, url, mails))
        with viewers(served, 1, ("/deliveries",)):
            beside.append(_work_off(served, url, mails))
    rate, cpu_us = _medians(without)
    rate_beside, cpu_us_beside = _medians(beside)
    print(f"backlog of {mails:,}, {rounds} rounds in turn, delivered/s and CPU µs per delivery:")
    print(f"  no page    {rate:8,.0f} {cpu_us:6.1f}   {_rates(without)}")
    print(f"  one page   {rate_beside:8,.0f} {cpu_us_beside:6.1f}   {_rates(beside)}")
    print(f"  one page leaves {rate_beside / rate:.1%} of the rate")


def _work_off(served: Served, url: str, mails: int) -> Worked:
    due_at_ms = asyncio.run(_submit(url, mails))
    wanted = _delivered(served) + mails
    time.sleep(max(due_at_ms / 1000 - time.time(), 0))
    begun_s, cpu_begun_s = time.monotonic(), cpu_s(served.pid)
    while _delivered(served) < wanted:
        time.sleep(LOOK_EVERY_S)
    passed_s, used_s = time.monotonic() - begun_s, cpu_s(served.pid) - cpu_begun_s
    return Worked(mails / passed_s, used_s / mails * 1e6)


async def _submit(url: str, mails: int) -> int:
    due_at_ms = round(time.time() * 1000) + DUE_IN_MS
    send_at = datetime.fromtimestamp(due_at_ms / 1000, UTC)
    async with Homing(url, provider="stub:", worker=False) as homing:
        for start in range(0, mails, 1000):
            batch = [
                Email(to="ok@stub.test", subject="Load", text="x")
                for _ in range(min(1000, mails - start))
            ]
            await homing.submit_many(batch, source="load", send_at=send_at)
    return due_at_ms


def _delivered(served: Served) -> int:
    routes = served.call("GET", "/api/v1/stats", timeout_s=60).json()["routes"]
    return sum(route["states"].get("delivered", 0) for route in routes)


def _medians(worked: Sequence[Worked]) -> tuple[float, float]:
    return (
        statistics.median(each.per_s for each in worked),
        statistics.median(each.cpu_us for each in worked),
    )


def _rates(worked: Sequence[Worked]) -> str:
    return " ".join(f"{each.per_s:,.0f}" for each in worked)

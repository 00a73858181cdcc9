"""SIGKILL of the worker under load, again and again: what is done twice, what is lost.

The handler's ledger is a mapped file with one byte per delivery: it survives the kill and knows
nothing of the store.
"""

import asyncio
import mmap
import random
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.contest.plan import Plan, report
from benchmarks.ours.app import BULK, event, keys, open_homing, unsettled
from benchmarks.ours.worker import work
from homing import Assignment

PER_KILL = 20_000
LIFE_S = (0.2, 1.2)
POLL_S = 0.02
# The dead worker's leases must end before the next one may take what it held.
SETTLE_S = 120.0


async def enqueue(file: Path, jobs: int) -> None:
    unique = keys()
    async with open_homing(file) as homing:
        for first in range(0, jobs, BULK):
            await homing.submit_many(
                [(next(unique), event(number=first + place)) for place in range(BULK)]
            )


def handle_into(ledger: Path, file: Path) -> None:
    """The worker's side."""
    with ledger.open("r+b") as opened:
        marks = mmap.mmap(opened.fileno(), 0)

    def mark(assignment: Assignment) -> None:
        marks[assignment.data["number"]] += 1

    asyncio.run(work(file, mark))


def start(ledger: Path, file: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "benchmarks.ours.kills", ledger, file])


def handled(ledger: Path) -> int:
    raw = ledger.read_bytes()
    return len(raw) - raw.count(0)


def live_and_die(ledger: Path, file: Path, dice: random.Random) -> float:
    """One worker's life; deliveries per second in it."""
    before = handled(ledger)
    process = start(ledger, file)
    try:
        while handled(ledger) == before and process.poll() is None:
            time.sleep(POLL_S)
        began_s = time.monotonic()
        time.sleep(dice.uniform(*LIFE_S))
    finally:
        process.kill()
        process.wait()
    return (handled(ledger) - before) / (time.monotonic() - began_s)


async def settle(ledger: Path, file: Path) -> None:
    process = start(ledger, file)
    try:
        deadline_s = time.monotonic() + SETTLE_S
        async with open_homing(file) as homing:
            while (left := await unsettled(homing)) and time.monotonic() < deadline_s:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S * 10)  # another process settles: none can wake us
        if left:
            raise RuntimeError(f"{left} deliveries are still unsettled after {SETTLE_S} s")
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    plan = Plan.from_environment()
    jobs, dice = plan.kills * PER_KILL, random.Random(1)
    ledger, file = plan.tallies / "ledger", plan.data / "homing.db"
    ledger.write_bytes(bytes(jobs))
    asyncio.run(enqueue(file, jobs))
    rates = [live_and_die(ledger, file, dice) for _ in range(plan.kills)]
    asyncio.run(settle(ledger, file))
    marks = ledger.read_bytes()
    report(
        {
            "kill_duplicates": (sum(marks) - (jobs - marks.count(0))) / plan.kills,
            "kill_lost": marks.count(0),
            "kill_drain": sorted(rates)[len(rates) // 2],
        },
        {"deliveries": jobs, "kills": plan.kills, "worker": "1 process"},
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        handle_into(*map(Path, sys.argv[1:]))
    else:
        main()

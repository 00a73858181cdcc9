"""Does a delivery cost the same with a thousand rows in the file and with a million?

Half of the rows have been delivered, half are scheduled for tomorrow: both ends of every index.
Then a window of deliveries is enqueued and drained on top, and the time of both is its cost.
"""

import asyncio
import statistics
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from benchmarks.contest import processes, tally
from benchmarks.contest.plan import Plan, report
from benchmarks.contest.queues import work_off
from benchmarks.ours import worker
from benchmarks.ours.app import BULK, event, keys, open_homing, remove

WINDOW = 10_000
WINDOWS = 5
LIMIT_S = 300.0


async def enqueue(file: Path, jobs: int, *, later: bool = False) -> float:
    """Seconds for so many, in bulk."""
    unique = keys()
    send_at = datetime.now(UTC) + timedelta(days=1) if later else None
    async with open_homing(file) as homing:
        began_s = time.perf_counter()
        for _ in range(0, jobs, BULK):
            await homing.submit_many(
                [(next(unique), event()) for _ in range(BULK)], send_at=send_at
            )
        return time.perf_counter() - began_s


def drain(file: Path, jobs: int, plan: Plan) -> float:
    """Seconds for so many, by one worker process, from the first start to the last."""
    tally.clear(plan.tallies)
    with processes.running([worker.command(file)], plan.data) as workers:
        work_off(jobs, workers, plan.tallies, limit_s=LIMIT_S)
    count = tally.read(plan.tallies)
    if count.jobs < jobs:
        raise RuntimeError(f"only {count.jobs} of {jobs} were drained in {LIMIT_S} s")
    return count.last_s - count.first_s


def fill(file: Path, rows: int, plan: Plan) -> None:
    half = max(rows // 2 // BULK * BULK, BULK)
    asyncio.run(enqueue(file, half))
    drain(file, half, plan)
    if rows > half:
        asyncio.run(enqueue(file, rows - half, later=True))


class Cost(NamedTuple):
    """Of one delivery."""

    enqueue_us: float
    drain_us: float

    @property
    def both_us(self) -> float:
        return self.enqueue_us + self.drain_us


def window(file: Path, plan: Plan) -> Cost:
    enqueue_s = asyncio.run(enqueue(file, WINDOW))
    return Cost(enqueue_s / WINDOW * 1e6, drain(file, WINDOW, plan) / WINDOW * 1e6)


def median(costs: Sequence[Cost]) -> Cost:
    return Cost(*(statistics.median(parts) for parts in zip(*costs, strict=True)))


def measure(plan: Plan) -> tuple[Cost, Cost]:
    """Windows on the small and on the large file in turns, as the machine's mood changes."""
    few, many = plan.rows
    small_file, large_file = plan.data / "small.db", plan.data / "large.db"
    small, large = [], []
    fill(large_file, many, plan)
    for _ in range(WINDOWS):
        # A window is larger than the small file: each one gets a fresh file.
        remove(small_file)
        fill(small_file, few, plan)
        small.append(window(small_file, plan))
        large.append(window(large_file, plan))
    return median(small), median(large)


def main() -> None:
    plan = Plan.from_environment()
    small, large = measure(plan)
    report(
        {
            "cost_small": small.both_us,
            "cost_large": large.both_us,
            "cost_growth": large.both_us / small.both_us,
        },
        {
            "window": WINDOW,
            **{
                f"{rows}_rows": {name: round(us, 1) for name, us in cost._asdict().items()}
                for rows, cost in zip(plan.rows, (small, large), strict=True)
            },
        },
    )


if __name__ == "__main__":
    main()

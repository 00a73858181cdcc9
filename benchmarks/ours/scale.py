"""Does a delivery cost the same with a thousand rows in the file and with a million?

Half of the rows have been delivered, half are scheduled for tomorrow: both ends of every index.
Then a window of deliveries is enqueued and drained on top, and the time of both is its cost.
"""

import asyncio
import statistics
import time
from pathlib import Path

from benchmarks.contest import processes, tally
from benchmarks.contest.plan import Plan, report
from benchmarks.contest.queues import work_off
from benchmarks.ours import worker
from benchmarks.ours.app import BULK, event, keys, open_homing, remove

WINDOW = 10_000
WINDOWS = 3
DAY_MS = 86_400_000
LIMIT_S = 300.0


async def enqueue(file: Path, jobs: int, *, later: bool = False) -> float:
    """Seconds for so many, in bulk."""
    unique = keys()
    not_before_ms = round(time.time() * 1000) + DAY_MS if later else None
    async with open_homing(file) as homing:
        began_s = time.perf_counter()
        for _ in range(0, jobs, BULK):
            await homing.submit_many(
                [(next(unique), event()) for _ in range(BULK)], not_before_ms=not_before_ms
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


def cost_us(rows: int, plan: Plan) -> dict[str, float]:
    """Per delivery: enqueue, drain, and both, the median of some windows."""
    file = plan.data / f"rows-{rows}.db"
    enqueued_us, drained_us = [], []
    for number in range(WINDOWS):
        # A window is larger than the small file: there each one gets a fresh file.
        if number == 0 or rows < WINDOW:
            remove(file)
            fill(file, rows, plan)
        enqueued_us.append(asyncio.run(enqueue(file, WINDOW)) / WINDOW * 1e6)
        drained_us.append(drain(file, WINDOW, plan) / WINDOW * 1e6)
    remove(file)
    enqueue_us, drain_us = statistics.median(enqueued_us), statistics.median(drained_us)
    return {"enqueue_us": enqueue_us, "drain_us": drain_us, "both_us": enqueue_us + drain_us}


def main() -> None:
    plan = Plan.from_environment()
    small, large = (cost_us(rows, plan) for rows in plan.rows)
    report(
        {
            "cost_small": small["both_us"],
            "cost_large": large["both_us"],
            "cost_growth": large["both_us"] / small["both_us"],
        },
        {
            "window": WINDOW,
            **{
                f"{rows}_rows": {name: round(value, 1) for name, value in costs.items()}
                for rows, costs in zip(plan.rows, (small, large), strict=True)
            },
        },
    )


if __name__ == "__main__":
    main()

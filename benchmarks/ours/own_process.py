"""Enqueue-to-start latency where the worker runs in the caller's own process."""

import asyncio
import time

from benchmarks.contest.plan import Plan, report
from benchmarks.contest.queues import percentile
from benchmarks.contest.stopwatch import paced_async
from benchmarks.ours.app import event, keys, open_homing
from homing import HandlerCall

SETTLE_S = 10.0


async def waits_ms(plan: Plan) -> list[float]:
    """How long each delivery waited for its start, shortest first."""
    waits: list[float] = []
    all_started = asyncio.Event()
    jobs = int(plan.rate_per_s * plan.latency_s)

    def start(call: HandlerCall) -> None:
        waits.append((time.time() - call.data["ts"]) * 1000)
        if len(waits) == jobs:
            all_started.set()

    unique = keys()
    async with open_homing(plan.data / "homing.db", start) as homing:
        await paced_async(
            lambda now_s: homing.submit(event(now_s), key=next(unique)),
            plan.rate_per_s,
            plan.latency_s,
        )
        async with asyncio.timeout(SETTLE_S):
            await all_started.wait()
    return sorted(waits)


def main() -> None:
    plan = Plan.from_environment()
    waits = asyncio.run(waits_ms(plan))
    report(
        {
            "latency_own_process_p50": percentile(waits, 0.5),
            "latency_own_process_p99": percentile(waits, 0.99),
        },
        {"latency_jobs": len(waits), "latency_max_ms": round(waits[-1], 2)},
    )


if __name__ == "__main__":
    main()

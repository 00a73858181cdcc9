"""What a worker process costs while there is nothing to do."""

import asyncio
import time

from benchmarks.contest import processes, tally
from benchmarks.contest.plan import Plan, report
from benchmarks.contest.queues import work_off
from benchmarks.ours import worker
from benchmarks.ours.app import event, open_homing

# What a start leaves behind (first looks, a checkpoint) is over by then.
SETTLE_S = 5.0
LIMIT_S = 30.0


async def enqueue_one(plan: Plan) -> None:
    async with open_homing(plan.data / "homing.db") as homing:
        await homing.submit(event())


def main() -> None:
    plan = Plan.from_environment()
    asyncio.run(enqueue_one(plan))
    tally.clear(plan.tallies)
    with processes.running([worker.command(plan.data / "homing.db")], plan.data) as workers:
        work_off(1, workers, plan.tallies, limit_s=LIMIT_S)
        time.sleep(SETTLE_S)
        began_cpu_s, began_s = workers.cpu_s(), time.monotonic()
        time.sleep(plan.idle_s)
        used_s = workers.cpu_s() - began_cpu_s
        share = used_s / (time.monotonic() - began_s)
        workers.demand_alive()
    report({"idle_cpu": share * 100}, {"idle_s": plan.idle_s, "worker": "1 process"})


if __name__ == "__main__":
    main()

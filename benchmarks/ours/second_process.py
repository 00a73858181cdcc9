"""What a second worker process adds to a drain, and what the server took meanwhile."""

import os
import statistics
import time

from benchmarks.contest import processes, tally
from benchmarks.contest.plan import Plan, report
from benchmarks.contest.queues import work_off
from benchmarks.ours.postgres_queue import postgres_queue

JOBS = 100_000
TURNS = 2


def drain(plan: Plan, workers: int) -> tuple[float, float]:
    """Deliveries per second, and how many cores the server kept busy."""
    queue = postgres_queue(plan, workers)
    queue.reset()
    queue.ways()["bulk"](JOBS)
    tally.clear(plan.tallies)
    with processes.running(queue.worker_commands(), plan.data) as running:
        used_s, began_s = _server_cpu_s(plan), time.monotonic()
        work_off(JOBS, running, plan.tallies, limit_s=plan.drain_s)
        cores = (_server_cpu_s(plan) - used_s) / (time.monotonic() - began_s)
    return tally.read(plan.tallies).rate_per_s, cores


def _server_cpu_s(plan: Plan) -> float:
    return processes.server_cpu_s(int(plan.servers["postgres_pid"]))


def main() -> None:
    plan = Plan.from_environment()
    turns = {workers: [drain(plan, workers) for _ in range(TURNS)] for workers in (1, 2)}
    rates = {
        workers: statistics.median(rate for rate, _ in seen) for workers, seen in turns.items()
    }
    report(
        {"second_process": rates[2] / rates[1]},
        {
            "jobs": JOBS,
            "cores": os.cpu_count(),
            **{
                f"{workers}_processes": {
                    "per_s": round(rates[workers]),
                    "server_cores": round(statistics.median(cores for _, cores in seen), 2),
                }
                for workers, seen in turns.items()
            },
        },
    )


if __name__ == "__main__":
    main()

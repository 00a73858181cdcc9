"""The contest every job queue runs, ours and theirs: enqueue, drain, latency, memory.

The job does nothing and carries about 1 KB. Each measure is sized by time, not by count, so that
a queue of 500 jobs/s and one of 50,000 are both measured over seconds.
"""

import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.contest import processes, tally
from benchmarks.contest.plan import Plan, report
from benchmarks.contest.stopwatch import Enqueue

WARM_JOBS = 200
CHUNK = 1_000
MAX_JOBS = 200_000
FULL_QUEUES = {"drain_20k": 20_000, "drain_100k": 100_000}
START_S = 30.0
SETTLE_S = 15.0
POLL_S = 0.05


class Queue(Protocol):
    """One contestant, fairly set."""

    config: Mapping[str, object]

    def reset(self) -> None:
        """Leave an empty queue, as after a fresh start."""

    def ways(self) -> Mapping[str, Enqueue]:
        """The calls it has, by name: `single`, `concurrent`, `bulk`."""

    def pace(self, rate_per_s: float, span_s: float) -> int:
        """Enqueue at an even rate, each job with the time of its call; how many."""

    def worker_commands(self) -> Sequence[Sequence[str]]: ...

    def remaining(self) -> int:
        """Jobs not yet settled."""


def compete(queue: Queue, plan: Plan) -> None:
    """Run what the plan wants and report it."""
    values: dict[str, float] = {}
    config: dict[str, object] = dict(queue.config) | {"load": round(os.getloadavg()[0], 1)}
    ways = queue.ways()
    drains = plan.wants("drain", "worker_rss")
    sizes = {
        way: _affordable(queue, enqueue, plan.budget_s, warm=CHUNK if way == "bulk" else WARM_JOBS)
        for way, enqueue in ways.items()
        if drains or plan.wants(f"enqueue_{way}")
    }
    for way, jobs in sizes.items():
        if plan.wants(f"enqueue_{way}"):
            queue.reset()
            values[f"enqueue_{way}"] = jobs / ways[way](jobs)
            config[f"enqueue_{way}_jobs"] = jobs
    if drains:
        queue.reset()
        fastest = max(sizes, key=sizes.__getitem__)
        ways[fastest](sizes[fastest])
        values |= _drain(queue, "drain", sizes[fastest], plan, config)
    for name, jobs in FULL_QUEUES.items():
        if plan.wants(name):
            queue.reset()
            ways["bulk"](jobs)
            values |= _drain(queue, name, jobs, plan, config)
    if plan.wants("snapshot_loss"):
        # psycopg is there wherever a contestant uses PostgreSQL, and nowhere else.
        from benchmarks.contest.snapshot import loss_percent

        values["snapshot_loss"] = loss_percent(queue, plan, config)
    if plan.wants("latency_p50", "latency_p99"):
        values |= _latency(queue, ways["single"], plan, config)
    report({name: value for name, value in values.items() if plan.wants(name)}, config)


def _affordable(queue: Queue, enqueue: Enqueue, budget_s: float, *, warm: int) -> int:
    queue.reset()
    rate_per_s = warm / enqueue(warm)
    # Whole steps: bulk calls are made a thousand at a time.
    return min(MAX_JOBS, math.ceil(rate_per_s * budget_s / warm) * warm)


def _drain(
    queue: Queue, name: str, jobs: int, plan: Plan, config: dict[str, object]
) -> dict[str, float]:
    """Work off what is in the queue, or as much of it as the time allows."""
    tally.clear(plan.tallies)
    server = int(plan.servers.get("postgres_pid", 0))
    server_cpu_s = processes.server_cpu_s(server) if server else 0.0
    with processes.running(queue.worker_commands(), plan.data) as workers:
        worked = work_off(
            jobs,
            workers,
            plan.tallies,
            limit_s=plan.drain_s if name in FULL_QUEUES else 3 * plan.budget_s,
        )
        count = tally.read(plan.tallies)
        if count.jobs >= jobs:
            config[f"{name}_left"] = _settled(queue)
        config |= {
            f"{name}_jobs": count.jobs,
            f"{name}_cpu_us": round(worked.cpu_us_per_job, 1),
            "worker_processes": len(workers.pids()),
        }
        if server:
            server_cpu_s = processes.server_cpu_s(server) - server_cpu_s
            config[f"{name}_server_cpu_us"] = round(server_cpu_s / max(count.jobs, 1) * 1e6, 1)
    return {name: count.rate_per_s, "worker_rss": worked.peak_mb}


@dataclass(frozen=True, slots=True)
class Worked:
    """What the workers used meanwhile; a busy machine bends CPU per job less than the rate."""

    peak_mb: float
    cpu_us_per_job: float


def work_off(jobs: int, workers: processes.Workers, tallies: Path, *, limit_s: float) -> Worked:
    """Wait until all jobs have started or, after the first one, the time is over."""
    first = _await_first(workers, tallies)
    cpu_s, peak_mb = workers.cpu_s(), 0.0
    deadline_s = time.monotonic() + limit_s
    while (count := tally.read(tallies)).jobs < jobs and time.monotonic() < deadline_s:
        workers.demand_alive()
        peak_mb = max(peak_mb, workers.rss_mb())
        time.sleep(POLL_S)
    cpu_s = workers.cpu_s() - cpu_s
    return Worked(max(peak_mb, workers.rss_mb()), cpu_s / max(count.jobs - first.jobs, 1) * 1e6)


def _await_first(workers: processes.Workers, tallies: Path) -> tally.Count:
    deadline_s = time.monotonic() + START_S
    while not (count := tally.read(tallies)).jobs:
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"no job started in {START_S} s: {workers.log.read_text()[-800:]}")
        workers.demand_alive()
        time.sleep(POLL_S)
    return count


def _settled(queue: Queue) -> int:
    """Started is not settled: wait for the last acknowledgements; how many are missing."""
    deadline_s = time.monotonic() + SETTLE_S
    while (left := queue.remaining()) and time.monotonic() < deadline_s:
        time.sleep(POLL_S)
    return left


def _latency(
    queue: Queue, enqueue: Enqueue, plan: Plan, config: dict[str, object]
) -> dict[str, float]:
    queue.reset()
    tally.clear(plan.tallies)
    with processes.running(queue.worker_commands(), plan.data) as workers:
        enqueue(1)
        work_off(1, workers, plan.tallies, limit_s=START_S)
        time.sleep(1.0)  # the second worker process of a peer may still be starting
        jobs = queue.pace(plan.rate_per_s, plan.latency_s)
        deadline_s = time.monotonic() + SETTLE_S
        while len(waits_ms := tally.latencies_ms(plan.tallies)) < jobs:
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"only {len(waits_ms)} of {jobs} paced jobs started")
            time.sleep(POLL_S)
    config |= {"latency_jobs": jobs, "latency_max_ms": round(waits_ms[-1], 2)}
    return {
        "latency_p50": percentile(waits_ms, 0.5),
        "latency_p99": percentile(waits_ms, 0.99),
    }


def percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]

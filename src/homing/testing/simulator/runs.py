"""Many seeds, over several processes, told in the order of the seeds."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from msgspec import Struct

from homing.testing.simulator.findings import Breach, Result
from homing.testing.simulator.options import Focus, draw
from homing.testing.simulator.world import run_world


class Job(Struct, frozen=True):
    """One seed to run; twice, if two runs of it shall be compared."""

    seed: int
    focus: Focus
    twice: bool = False


def run_job(job: Job) -> Result:
    result = run_world(draw(job.seed, job.focus))
    gc.collect()
    if job.twice:
        again = run_world(draw(job.seed, job.focus))
        if again.digest != result.digest:
            text = f"{result.digest} and then {again.digest}"
            result.breaches.append(Breach("determinism", f"seed {job.seed}", text, 0.0))
    return result


def run_jobs(jobs: Sequence[Job], processes: int) -> Iterator[Result]:
    if processes <= 1 or len(jobs) <= 1:
        yield from map(run_job, jobs)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(jobs)), mp_context=context) as pool:
        try:
            # In the order of the seeds, whoever is done first: the output is always the same.
            yield from pool.map(run_job, jobs)
        finally:
            pool.shutdown(cancel_futures=True)

"""One seed from the first call to the totals, and many of them over several processes."""

from __future__ import annotations

import gc
import logging
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from msgspec import Struct

from tests.simulation.simulator.final_checks import check_ledgers
from tests.simulation.simulator.findings import Breach, Result
from tests.simulation.simulator.options import Focus, Options, draw
from tests.simulation.simulator.world import World
from tests.simulation.virtualtime import Spinning, Stalled


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


def run_world(options: Options, sink: Callable[[str], None] | None = None) -> Result:
    """One seed, from the first call to the totals."""
    world = World(options, sink)
    result = Result(seed=options.seed, options=str(options))
    said = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # the engine says of every fault that it met it
    try:
        world.loop.run_until_complete(world.main())
        totals = check_ledgers(world)
        result.duplicates = totals.duplicates
        result.unexplained = totals.unexplained
        result.lost = totals.lost
    except (Stalled, Spinning) as stuck:
        world.findings.breach("I14", "world", f"{type(stuck).__name__}: {stuck}")
    except RuntimeError:
        if not world.findings.is_full:
            raise
    finally:
        logging.disable(said)
        _finish(world, result)
        world.close()
    return result


def _finish(world: World, result: Result) -> None:
    result.deliveries = world.writes.births
    result.faults = world.faults
    result.reached = world.reached
    result.breaches = world.findings.breaches
    result.steps = world.loop.steps
    result.virtual_s = world.loop.time()
    result.ends = Counter(
        f"{d.state}:{d.failed_because}" if d.failed_because else d.state
        for d in world.disk.deliveries.values()
    )
    result.digest = world.trace.digest
    if result.breaches:
        result.story = world.trace.about(result.breaches[0].subject)

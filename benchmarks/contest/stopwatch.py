"""Ways to call an enqueue function, each timed without the connecting before it."""

import asyncio
import itertools
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

Enqueue = Callable[[int], float]
"""Put so many jobs into the queue; the seconds it took."""


def one_by_one(call: Callable[[], object], jobs: int) -> float:
    started_s = time.perf_counter()
    for _ in range(jobs):
        call()
    return time.perf_counter() - started_s


def by_threads(call: Callable[[], object], jobs: int, callers: int) -> float:
    """So many threads, each waiting for its own answer before it calls again."""
    left, together = itertools.count(), threading.Barrier(callers + 1)

    def caller() -> None:
        together.wait()
        while next(left) < jobs:
            call()

    with ThreadPoolExecutor(callers) as pool:
        calling = [pool.submit(caller) for _ in range(callers)]
        together.wait()
        started_s = time.perf_counter()
        for one in calling:
            one.result()
        return time.perf_counter() - started_s


async def by_tasks(call: Callable[[], Awaitable[object]], jobs: int, callers: int = 1) -> float:
    """So many tasks, each waiting for its own answer before it calls again."""
    left = itertools.count()

    async def caller() -> None:
        while next(left) < jobs:
            await call()

    started_s = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return time.perf_counter() - started_s


def paced(call: Callable[[float], object], rate_per_s: float, span_s: float) -> int:
    """Call at an even rate, handing over the time of the call; how many calls it made."""
    jobs, started_s = int(rate_per_s * span_s), time.time()
    for job in range(jobs):
        time.sleep(max(0.0, started_s + job / rate_per_s - time.time()))
        call(time.time())
    return jobs


async def paced_async(
    call: Callable[[float], Awaitable[object]], rate_per_s: float, span_s: float
) -> int:
    jobs, started_s = int(rate_per_s * span_s), time.time()
    for job in range(jobs):
        await asyncio.sleep(max(0.0, started_s + job / rate_per_s - time.time()))
        await call(time.time())
    return jobs

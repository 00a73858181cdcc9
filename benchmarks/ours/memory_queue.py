"""The engine without a disk: what it costs by itself, in one process on the memory store."""

import asyncio
import time

from benchmarks.contest.plan import Plan, report
from benchmarks.contest.stopwatch import by_tasks
from benchmarks.ours.app import BULK, TYPE, event, keys
from homing import HandlerCall, Homing
from homing.stores.memory import MemoryStore

JOBS = 20_000


async def enqueued(producer: Homing, callers: int) -> dict[str, float]:
    unique = keys()
    one_by_one_s = await by_tasks(
        lambda: producer.submit(event(), key=next(unique)), JOBS // 2, callers
    )
    bulk_s = await by_tasks(
        lambda: producer.submit_many([(next(unique), event()) for _ in range(BULK)]),
        JOBS // 2 // BULK,
    )
    return {
        "enqueue_concurrent": JOBS / 2 / one_by_one_s,
        "enqueue_bulk": JOBS / 2 / bulk_s,
    }


async def drained(store: MemoryStore) -> float:
    consumer = Homing(store)
    started, all_started = 0, asyncio.Event()

    @consumer.on(TYPE, timeout_s=1.0)
    async def noop(_call: HandlerCall) -> None:
        nonlocal started
        started += 1
        if started == JOBS:
            all_started.set()

    began_s = time.perf_counter()
    async with consumer:
        await all_started.wait()
        return JOBS / (time.perf_counter() - began_s)


async def measure(plan: Plan) -> dict[str, float]:
    store = MemoryStore()
    async with Homing(store, worker=False) as producer:
        values = await enqueued(producer, plan.callers)
        return values | {"drain": await drained(store)}


if __name__ == "__main__":
    report(asyncio.run(measure(Plan.from_environment())), {"jobs": JOBS, "durable": False})

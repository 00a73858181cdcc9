"""The JSONL store alone: appending, opening a large file, and what a waiting worker costs."""

import asyncio
import gc
import multiprocessing
import os
import time
from pathlib import Path

from benchmarks.contest.plan import PAYLOAD, Plan, report
from benchmarks.contest.stopwatch import by_tasks
from benchmarks.ours.app import event, open_homing
from homing.domain.delivery import Delivery, Key, New, Recipient
from homing.stores.jsonl import JsonlStore

BULK = 1000
JOBS = 50_000
SETTLE_S = 3.0
LIMIT_S = 30.0
QUEUE = "bench/send"


def new(number: int) -> New:
    """As a plugin adds it: a key, a fingerprint, one recipient, 1 KB."""
    now_ms = time.time_ns() // 1_000_000
    delivery = Delivery(
        id=f"01a1e5de-775e-7000-bd9f-{number:012}",
        route="bench",
        queue=QUEUE,
        stage="send",
        created_at_ms=now_ms,
        updated_at_ms=now_ms,
        due_at_ms=now_ms + 86_400_000,
        source="bench",
        key=f"cs_{number:020}",
        fingerprint=f"{number:064x}",
        recipients=(Recipient(f"customer{number}@example.org"),),
    )
    key = Key("bench", delivery.key or "", delivery.id, delivery.fingerprint)
    return New(delivery, PAYLOAD.encode(), (key,))


async def appended(path: Path, callers: int) -> dict[str, float]:
    store = JsonlStore(path)
    await store.open()
    singles = iter([new(number) for number in range(JOBS // 5)])
    concurrent_s = await by_tasks(lambda: store.add([next(singles)]), JOBS // 5, callers)
    starts = range(JOBS // 5, JOBS, BULK)
    chunks = iter([[new(start + nth) for nth in range(BULK)] for start in starts])
    bulk_s = await by_tasks(lambda: store.add(next(chunks)), len(starts))
    await store.close()
    return {
        "append_concurrent": JOBS / 5 / concurrent_s,
        "append_bulk": len(starts) * BULK / bulk_s,
    }


def fill(path: Path, lines: int) -> None:
    async def add() -> None:
        store = JsonlStore(path)
        await store.open()
        for start in range(0, lines, BULK):
            await store.add([new(start + nth) for nth in range(BULK)])
        await store.close()

    asyncio.run(add())


async def opened(path: Path, lines: int) -> dict[str, float]:
    """All of them are active; what the process grows by is their index."""
    # In a process of its own: what it leaves free would be used again, and not be counted.
    filling = multiprocessing.get_context("spawn").Process(target=fill, args=(path, lines))
    filling.start()
    await asyncio.to_thread(filling.join)
    gc.collect()
    before, began_s = resident_bytes(), time.perf_counter()
    store = JsonlStore(path)
    await store.open()
    took_s = time.perf_counter() - began_s
    grown = resident_bytes() - before
    await store.close()
    return {"open_million": took_s * 1_000_000 / lines, "open_memory": grown / lines}


async def idle(path: Path, idle_s: float) -> dict[str, float]:
    """The worker of a process with nothing to do, and how soon it starts what another adds."""
    began = asyncio.Event()
    url = f"jsonl:///{path}"
    async with open_homing(url, lambda _: began.set()), open_homing(url) as other:
        await asyncio.sleep(SETTLE_S)
        began_cpu_s, began_s = time.process_time(), time.monotonic()
        await asyncio.sleep(idle_s)
        share = (time.process_time() - began_cpu_s) / (time.monotonic() - began_s)
        asked_s = time.perf_counter()
        await other.submit(event())
        async with asyncio.timeout(LIMIT_S):
            await began.wait()
        return {"idle_cpu": share * 100, "reaction": time.perf_counter() - asked_s}


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def measure(plan: Plan) -> dict[str, float]:
    lines = plan.rows[1] // BULK * BULK
    return {
        **await opened(plan.data / "large.jsonl", lines),
        **await appended(plan.data / "queue.jsonl", plan.callers),
        **await idle(plan.data / "idle.jsonl", plan.idle_s),
    }


if __name__ == "__main__":
    PLAN = Plan.from_environment()
    report(
        asyncio.run(measure(PLAN)),
        {"bulk": BULK, "callers": PLAN.callers, "lines": PLAN.rows[1], "durable": True},
    )

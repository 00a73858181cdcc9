"""Where the time goes: CPU time and Python calls per delivery, by part (`make profile`).

CPU time is that of the whole process, the store's threads included, so a busy machine bends it
little. Calls are those of the event loop's thread. What the engine itself costs is the drain less
the store's claims and saves.
"""

import asyncio
import cProfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.ours.app import BULK, TYPE, event, keys
from homing import HandlerCall, Homing
from homing.domain import transitions
from homing.domain.policy import Plan, Stage
from homing.ports import Claim, Query, Store
from homing.stores.memory import MemoryStore
from homing.stores.sql.sqlite import SqliteStore

JOBS = 20_000
BATCH = 256
PLAN = Plan(stages=(Stage(name="handle"),))
# Long enough for every lease of a run, in milliseconds.
LEASE_MS = 600_000

Open = Callable[[Path], Store]
STORES: dict[str, Open] = {
    "memory": lambda _folder: MemoryStore(),
    "sqlite": lambda folder: SqliteStore(folder / "homing.db"),
}


class Cost(NamedTuple):
    """Of one delivery."""

    cpu_us: float
    calls: float


class Meter:
    """Collects one part at a time, by CPU time or (slower, so in a run of its own) by calls."""

    def __init__(self, *, counts_calls: bool) -> None:
        self._counts_calls = counts_calls
        self.by_part: dict[str, float] = {}

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        profiler = cProfile.Profile() if self._counts_calls else None
        began_s = time.process_time()
        if profiler is not None:
            profiler.enable()
        try:
            yield
        finally:
            if profiler is not None:
                profiler.disable()
            used_us = (time.process_time() - began_s) * 1e6
        spent = used_us if profiler is None else _calls(profiler)
        self.by_part[part] = self.by_part.get(part, 0.0) + spent / JOBS


def _calls(profiler: cProfile.Profile) -> float:
    return float(sum(entry.callcount for entry in profiler.getstats()))


async def whole(store: Store, meter: Meter) -> None:
    """Accept in bulk, then drain with a handler that does nothing."""
    unique = keys()
    async with Homing(store, worker=False) as producer:
        messages = [(next(unique), event()) for _ in range(JOBS)]
        with meter.of("accept"):
            for first in range(0, JOBS, BULK):
                await producer.submit_many(messages[first : first + BULK])
    consumer = Homing(store)
    handled, all_handled = 0, asyncio.Event()

    @consumer.on(TYPE, timeout_s=1.0)
    async def count(_call: HandlerCall) -> None:
        nonlocal handled
        handled += 1
        if handled == JOBS:
            all_handled.set()

    with meter.of("drain"):
        async with consumer:
            await all_handled.wait()


async def store_alone(store: Store, meter: Meter) -> None:
    """The same claims and saves without an engine."""
    unique = keys()
    async with Homing(store, worker=False) as producer:
        for _ in range(0, JOBS, BULK):
            await producer.submit_many([(next(unique), event()) for _ in range(BULK)])
        [delivery] = (await store.page(Query(), limit=1)).items
        now_ms = round(time.time() * 1000) + 1000
        claim = Claim(
            worker="profile",
            now_ms=now_ms,
            lease_until_ms=now_ms + LEASE_MS,
            limit=BATCH,
            queues=(delivery.queue,),
        )
        left = JOBS
        while left > 0:
            with meter.of("claim"):
                claimed = await store.claim(claim)
            changes = [
                transitions.succeed(one.delivery, plan=PLAN, now_ms=now_ms, roll=0.0)
                for one in claimed
            ]
            with meter.of("save"):
                await store.save(changes)
            left -= len(claimed)
            if not claimed:
                raise RuntimeError(f"{left} deliveries were not claimed")


async def costs(open_store: Open) -> dict[str, Cost]:
    meters = Meter(counts_calls=False), Meter(counts_calls=True)
    for meter in meters:
        for run in (whole, store_alone):
            with tempfile.TemporaryDirectory(prefix="homing-profile-") as folder:
                await run(open_store(Path(folder)), meter)
    time_us, calls = meters
    found = {part: Cost(time_us.by_part[part], calls.by_part[part]) for part in time_us.by_part}
    drain, claim, save = found["drain"], found["claim"], found["save"]
    engine = Cost(*(whole - a - b for whole, a, b in zip(drain, claim, save, strict=True)))
    return {
        "accept in bulk, with a key": found["accept"],
        "drain, whole": drain,
        "  claim in the store": claim,
        "  save in the store": save,
        "  the engine": engine,
    }


def main() -> None:
    print(f"| per delivery, {JOBS:,} no-op events of 1 KB | store | CPU µs | Python calls |")
    print("| --- | --- | --- | --- |")
    for name, open_store in STORES.items():
        for part, cost in asyncio.run(costs(open_store)).items():
            print(f"| {part} | {name} | {cost.cpu_us:.1f} | {cost.calls:.0f} |", flush=True)


if __name__ == "__main__":
    main()

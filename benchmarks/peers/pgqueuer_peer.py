"""PgQueuer on PostgreSQL."""
# The peers are not installed where the types are checked:
# mypy: disable-error-code="import-not-found, import-untyped", allow-untyped-decorators

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import asyncpg
import psycopg
import uvloop
from pgqueuer import AsyncpgDriver, PgQueuer, Queries

from benchmarks.contest.plan import PAYLOAD, Plan
from benchmarks.contest.queues import compete
from benchmarks.contest.stopwatch import Enqueue, by_tasks, paced_async
from benchmarks.contest.tally import Tally

PLAN = Plan.from_environment()
URL = PLAN.servers["postgres"]
PROCESSES, BATCH, CHUNK, CONNECTIONS = 2, 1000, 1000, 16
UNSTAMPED = b"0|" + PAYLOAD.encode()


async def work() -> None:
    tally = Tally(PLAN.tallies)
    pgqueuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(URL)))

    @pgqueuer.entrypoint("noop")
    async def noop(job: Any) -> None:
        stamp, _, _payload = job.payload.partition(b"|")
        tally.tick(float(stamp))

    await pgqueuer.run(batch_size=BATCH)


async def single(queries: Any, jobs: int) -> float:
    return await by_tasks(lambda: queries.enqueue("noop", UNSTAMPED), jobs)


async def bulk(queries: Any, jobs: int) -> float:
    async def chunk() -> None:
        await queries.enqueue(["noop"] * CHUNK, [UNSTAMPED] * CHUNK, [0] * CHUNK)

    return await by_tasks(chunk, jobs // CHUNK)


async def connected(use: Callable[[Any], Awaitable[Any]]) -> Any:
    connection = await asyncpg.connect(URL)
    try:
        return await use(Queries(AsyncpgDriver(connection)))
    finally:
        await connection.close()


async def concurrent(jobs: int) -> float:
    """A connection takes one call at a time: the callers share a pool of connections."""
    connections = [await asyncpg.connect(URL) for _ in range(CONNECTIONS)]
    free: asyncio.Queue[Any] = asyncio.Queue()
    for connection in connections:
        free.put_nowait(Queries(AsyncpgDriver(connection)))

    async def call() -> None:
        queries = await free.get()
        await queries.enqueue("noop", UNSTAMPED)
        free.put_nowait(queries)

    try:
        return await by_tasks(call, jobs, PLAN.callers)
    finally:
        for connection in connections:
            await connection.close()


class PgQueuerQueue:
    config: Mapping[str, object] = {
        "worker": f"{PROCESSES} processes, batch_size={BATCH}, asyncpg and uvloop",
        "concurrent": f"over {CONNECTIONS} connections",
        "bulk": f"enqueue of {CHUNK} at a time",
    }

    def __init__(self) -> None:
        self._database = psycopg.connect(URL, autocommit=True)

    def reset(self) -> None:
        found = self._database.execute("select to_regclass('pgqueuer')").fetchone()
        if found is None or found[0] is None:
            uvloop.run(connected(lambda queries: queries.install()))
        self._database.execute("truncate pgqueuer, pgqueuer_log")
        self._database.execute("vacuum analyze pgqueuer")
        self._database.execute("checkpoint")

    def ways(self) -> Mapping[str, Enqueue]:
        return {
            "single": lambda jobs: uvloop.run(connected(lambda queries: single(queries, jobs))),
            "concurrent": lambda jobs: uvloop.run(concurrent(jobs)),
            "bulk": lambda jobs: uvloop.run(connected(lambda queries: bulk(queries, jobs))),
        }

    def pace(self, rate_per_s: float, span_s: float) -> int:
        def call(queries: Any) -> Awaitable[int]:
            return paced_async(
                lambda now_s: queries.enqueue("noop", b"%r|" % now_s + PAYLOAD.encode()),
                rate_per_s,
                span_s,
            )

        return int(uvloop.run(connected(call)))

    def worker_commands(self) -> Sequence[Sequence[str]]:
        return [[sys.executable, "-m", "benchmarks.peers.pgqueuer_peer", "work"]] * PROCESSES

    def remaining(self) -> int:
        row = self._database.execute("select count(*) from pgqueuer").fetchone()
        return int(row[0]) if row else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["work"]:
        uvloop.run(work())
    else:
        compete(PgQueuerQueue(), PLAN)

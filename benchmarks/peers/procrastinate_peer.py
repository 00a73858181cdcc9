"""Procrastinate on PostgreSQL."""
# The peers are not installed where the types are checked:
# mypy: disable-error-code="import-not-found, import-untyped", allow-untyped-decorators

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import procrastinate
import psycopg

from benchmarks.contest.plan import PAYLOAD, Plan
from benchmarks.contest.queues import compete
from benchmarks.contest.stopwatch import Enqueue, by_tasks, paced_async
from benchmarks.contest.tally import Tally

PLAN = Plan.from_environment()
URL = PLAN.servers["postgres"]
TALLY = Tally(PLAN.tallies)
PROCESSES, CONCURRENCY, CHUNK, CONNECTIONS = 2, 20, 1000, 20


def connector() -> Any:
    return procrastinate.PsycopgConnector(conninfo=URL, max_size=CONNECTIONS)


app = procrastinate.App(connector=connector())


@app.task(name="noop")
async def noop(_payload: str, enqueued_at_s: float = 0.0) -> None:
    TALLY.tick(enqueued_at_s)


async def opened(use: Callable[[Any], Awaitable[Any]]) -> Any:
    """An app of its own for each event loop: its pool belongs to the loop that opened it."""
    own = procrastinate.App(connector=connector())
    task = own.task(name="noop")(lambda **_: None)
    async with own.open_async():
        return await use(task)


async def bulk(task: Any, jobs: int) -> float:
    chunk = [{"_payload": PAYLOAD}] * CHUNK
    return await by_tasks(lambda: task.batch_defer_async(*chunk), jobs // CHUNK)


async def install() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


class ProcrastinateQueue:
    config: Mapping[str, object] = {
        "worker": f"{PROCESSES} processes, concurrency {CONCURRENCY}, psycopg, ended jobs kept",
        "concurrent": f"over {CONNECTIONS} connections",
        "bulk": f"batch_defer of {CHUNK} at a time",
    }

    def __init__(self) -> None:
        self._database = psycopg.connect(URL, autocommit=True)

    def reset(self) -> None:
        found = self._database.execute("select to_regclass('procrastinate_jobs')").fetchone()
        if found is None or found[0] is None:
            asyncio.run(install())
        self._database.execute("truncate procrastinate_jobs cascade")
        self._database.execute("vacuum analyze procrastinate_jobs")
        self._database.execute("checkpoint")

    def ways(self) -> Mapping[str, Enqueue]:
        def tasks(callers: int) -> Enqueue:
            return lambda jobs: asyncio.run(
                opened(
                    lambda task: by_tasks(lambda: task.defer_async(_payload=PAYLOAD), jobs, callers)
                )
            )

        return {
            "single": tasks(1),
            "concurrent": tasks(PLAN.callers),
            "bulk": lambda jobs: asyncio.run(opened(lambda task: bulk(task, jobs))),
        }

    def pace(self, rate_per_s: float, span_s: float) -> int:
        def call(task: Any) -> Awaitable[int]:
            return paced_async(
                lambda now_s: task.defer_async(_payload=PAYLOAD, enqueued_at_s=now_s),
                rate_per_s,
                span_s,
            )

        return int(asyncio.run(opened(call)))

    def worker_commands(self) -> Sequence[Sequence[str]]:
        command = [str(Path(sys.executable).parent / "procrastinate"), "--log-level", "error"]
        command += ["-a", "benchmarks.peers.procrastinate_peer.app"]
        return [[*command, "worker", "--concurrency", str(CONCURRENCY)]] * PROCESSES

    def remaining(self) -> int:
        row = self._database.execute(
            "select count(*) from procrastinate_jobs where status <> 'succeeded'"
        ).fetchone()
        return int(row[0]) if row else 0


if __name__ == "__main__":
    compete(ProcrastinateQueue(), PLAN)

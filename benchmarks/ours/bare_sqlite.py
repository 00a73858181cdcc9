"""The floor under our figures on SQLite: the same durable steps by `sqlite3` alone, on one table.

64 tasks share commits of one writer thread, two groups in turn, each row with a unique key. A
worker in another process is woken through a named pipe and claims what is new without waiting for
the disk. No checks, fingerprints, indexes for operators, leases or retries: nothing of Homing.
"""

import asyncio
import os
import queue
import sqlite3
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from benchmarks.contest.plan import PAYLOAD, Plan
from benchmarks.contest.queues import compete
from benchmarks.contest.stopwatch import Enqueue, by_tasks, one_by_one, paced
from benchmarks.contest.tally import Tally
from benchmarks.ours.app import keys, remove
from homing.runtime import long_running

SCHEMA = """
create table if not exists jobs (
    seq integer primary key,
    key text not null unique,
    payload blob not null,
    enqueued_at_s real not null,
    is_taken integer not null default 0
) strict;
create index if not exists jobs_new on jobs (seq) where is_taken = 0;
"""
ADD = "insert into jobs (key, payload, enqueued_at_s) values "
TAKE = """
update jobs set is_taken = 1
where seq in (select seq from jobs where is_taken = 0 order by seq limit 64)
returning enqueued_at_s
"""

Job = tuple[str, bytearray, float]
Group = list[tuple[Job, "asyncio.Future[None]"]]


def job(key: str, enqueued_at_s: float = 0.0) -> Job:
    data = {"payload": PAYLOAD, "ts": enqueued_at_s, "number": 0}
    return key, bytearray(msgspec.json.encode(data)), enqueued_at_s


def connect(file: Path, *, durable: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(file, isolation_level=None, timeout=5.0)
    connection.execute("pragma journal_mode = wal")
    connection.execute(f"pragma synchronous = {'full' if durable else 'normal'}")
    connection.executescript(SCHEMA)
    return connection


def add(connection: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    values = [value for each in jobs for value in each]
    connection.execute(ADD + ", ".join(["(?, ?, ?)"] * len(jobs)), values)


class SharedCommits:
    """A writer thread, and what waits for it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._groups: queue.SimpleQueue[Group] = queue.SimpleQueue()
        self._waiting: Group = []
        self._writing = 0
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._write, daemon=True).start()

    async def add(self, one: Job) -> None:
        done: asyncio.Future[None] = self._loop.create_future()
        if not self._waiting:
            self._loop.call_soon(self._hand_over)
        self._waiting.append((one, done))
        await done

    def _hand_over(self) -> None:
        waiting, self._waiting = self._waiting, []
        half = len(waiting) if self._writing else max(len(waiting) // 2, 1)
        for group in filter(None, (waiting[:half], waiting[half:])):
            self._writing += 1
            self._groups.put(group)

    def _write(self) -> None:
        connection = connect(self._file, durable=True)
        while True:
            group = self._groups.get()
            add(connection, [one for one, _ in group])
            self._loop.call_soon_threadsafe(self._answer, group)

    def _answer(self, group: Group) -> None:
        self._writing -= 1
        for _, done in group:
            done.set_result(None)


class BareQueue:
    config: Mapping[str, object] = {"sqlite": "one table, WAL, synchronous=FULL", "homing": "none"}

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._file, self._pipe = plan.data / "bare.db", plan.data / "bare.pipe"

    def reset(self) -> None:
        remove(self._file)
        connect(self._file, durable=True).close()
        if not self._pipe.exists():
            os.mkfifo(self._pipe)

    def ways(self) -> Mapping[str, Enqueue]:
        return {"single": self._one_by_one, "concurrent": self._together}

    def _one_by_one(self, jobs: int) -> float:
        connection, unique, pipe = connect(self._file, durable=True), keys(), self._opened_pipe()

        def call() -> None:
            add(connection, [job(next(unique))])
            os.write(pipe, b"!")

        return one_by_one(call, jobs)

    def _together(self, jobs: int) -> float:
        async def add_all() -> float:
            commits, unique = SharedCommits(self._file), keys()
            return await by_tasks(lambda: commits.add(job(next(unique))), jobs, self._plan.callers)

        return long_running.run(add_all())

    def pace(self, rate_per_s: float, span_s: float) -> int:
        connection, unique, pipe = connect(self._file, durable=True), keys(), self._opened_pipe()

        def call(now_s: float) -> None:
            add(connection, [job(next(unique), now_s)])
            os.write(pipe, b"!")

        return paced(call, rate_per_s, span_s)

    def _opened_pipe(self) -> int:
        return os.open(self._pipe, os.O_RDWR | os.O_NONBLOCK)

    def worker_commands(self) -> Sequence[Sequence[str]]:
        return [[sys.executable, "-m", "benchmarks.ours.bare_sqlite", "work"]]

    def work(self) -> None:
        connection, tally = connect(self._file, durable=False), Tally(self._plan.tallies)
        pipe = os.open(self._pipe, os.O_RDWR)
        while True:
            for (enqueued_at_s,) in connection.execute(TAKE).fetchall():
                tally.tick(enqueued_at_s)
            os.read(pipe, 4096)

    def remaining(self) -> int:
        [(left,)] = connect(self._file, durable=True).execute(
            "select count(*) from jobs where is_taken = 0"
        )
        return int(left)


if __name__ == "__main__":
    PLAN = Plan.from_environment()
    if sys.argv[1:] == ["work"]:
        BareQueue(PLAN).work()
    else:
        compete(BareQueue(PLAN), PLAN)

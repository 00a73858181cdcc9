"""huey, on SQLite or on Redis.

It removes a job when a worker takes it: a job under way is lost with its worker.
"""
# The peers are not installed where the types are checked:
# mypy: disable-error-code="import-not-found, import-untyped", allow-untyped-decorators

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from huey import RedisHuey, SqliteHuey

from benchmarks.contest.plan import PAYLOAD, Plan
from benchmarks.contest.queues import compete
from benchmarks.contest.stopwatch import Enqueue, by_threads, one_by_one, paced
from benchmarks.contest.tally import Tally

PLAN = Plan.from_environment()
ON_SQLITE = PLAN.options["store"] == "sqlite"
TALLY = Tally(PLAN.tallies)
WORKERS = 4
# The faster kind of worker, on each store.
KIND = "thread" if ON_SQLITE else "process"

if ON_SQLITE:
    huey = SqliteHuey("h", filename=str(PLAN.data / "huey.db"), fsync=True, results=False)
else:
    huey = RedisHuey("h", url=PLAN.servers["redis"], results=False, blocking=True)


@huey.task(name="noop")
def noop(_payload: str, enqueued_at_s: float = 0.0) -> None:
    TALLY.tick(enqueued_at_s)


class HueyQueue:
    config: Mapping[str, object] = {
        "worker": f"{WORKERS} x {KIND}, no results; a job is removed when it is taken",
        **({"sqlite": "WAL, synchronous=FULL"} if ON_SQLITE else {"redis": "appendfsync everysec"}),
    }

    def reset(self) -> None:
        huey.storage.flush_all()

    def ways(self) -> Mapping[str, Enqueue]:
        def call() -> object:
            return noop(PAYLOAD)

        return {
            "single": lambda jobs: one_by_one(call, jobs),
            "concurrent": lambda jobs: by_threads(call, jobs, PLAN.callers),
        }

    def pace(self, rate_per_s: float, span_s: float) -> int:
        return paced(lambda now_s: noop(PAYLOAD, now_s), rate_per_s, span_s)

    def worker_commands(self) -> Sequence[Sequence[str]]:
        consumer = str(Path(sys.executable).parent / "huey_consumer")
        command = [consumer, "benchmarks.peers.huey_peer.huey", "-w", str(WORKERS), "-k", KIND]
        return [[*command, "-d", "0.01", "-m", "0.05", "-n", "-q"]]

    def remaining(self) -> int:
        return int(huey.pending_count())


if __name__ == "__main__":
    # The consumer imports this module by its name: the tasks sent must be those of that name.
    from benchmarks.peers import huey_peer  # noqa: PLW0406  # on purpose, as said above

    compete(huey_peer.HueyQueue(), PLAN)

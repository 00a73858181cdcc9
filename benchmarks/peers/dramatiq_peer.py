"""Dramatiq on Redis."""
# The peers are not installed where the types are checked:
# mypy: disable-error-code="import-not-found, import-untyped", allow-untyped-decorators

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker

from benchmarks.contest.plan import PAYLOAD, Plan
from benchmarks.contest.queues import compete
from benchmarks.contest.stopwatch import Enqueue, by_threads, one_by_one, paced
from benchmarks.contest.tally import Tally

PLAN = Plan.from_environment()
URL = PLAN.servers["redis"]
TALLY = Tally(PLAN.tallies)
PROCESSES, THREADS, PREFETCH = 2, 8, 200

dramatiq.set_broker(RedisBroker(url=URL))


@dramatiq.actor(actor_name="noop")
def noop(_payload: str, enqueued_at_s: float = 0.0) -> None:
    TALLY.tick(enqueued_at_s)


class DramatiqQueue:
    config: Mapping[str, object] = {
        "worker": f"{PROCESSES} processes x {THREADS} threads, prefetch {PREFETCH}, "
        "default middleware",
        "redis": "appendfsync everysec",
    }

    def __init__(self) -> None:
        self._redis = redis.Redis.from_url(URL)

    def reset(self) -> None:
        self._redis.flushall()

    def ways(self) -> Mapping[str, Enqueue]:
        def call() -> object:
            return noop.send(PAYLOAD)

        return {
            "single": lambda jobs: one_by_one(call, jobs),
            "concurrent": lambda jobs: by_threads(call, jobs, PLAN.callers),
        }

    def pace(self, rate_per_s: float, span_s: float) -> int:
        return paced(lambda now_s: noop.send(PAYLOAD, now_s), rate_per_s, span_s)

    def worker_commands(self) -> Sequence[Sequence[str]]:
        # It reads its prefetch from the environment alone, and under this name.
        command = ["env", f"dramatiq_queue_prefetch={PREFETCH}"]
        command += [str(Path(sys.executable).parent / "dramatiq"), "benchmarks.peers.dramatiq_peer"]
        command += ["--processes", str(PROCESSES), "--threads", str(THREADS), "--skip-logging"]
        return [command]

    def remaining(self) -> int:
        waiting = self._redis.llen("dramatiq:default")
        return int(waiting + self._redis.hlen("dramatiq:default.msgs"))


if __name__ == "__main__":
    compete(DramatiqQueue(), PLAN)

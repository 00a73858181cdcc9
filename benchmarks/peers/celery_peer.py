"""Celery on Redis."""
# The peers are not installed where the types are checked:
# mypy: disable-error-code="import-not-found, import-untyped", allow-untyped-decorators

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import redis
from celery import Celery

from benchmarks.contest.plan import PAYLOAD, Plan
from benchmarks.contest.queues import compete
from benchmarks.contest.stopwatch import Enqueue, by_threads, one_by_one, paced
from benchmarks.contest.tally import Tally

PLAN = Plan.from_environment()
URL = PLAN.servers["redis"]
TALLY = Tally(PLAN.tallies)
PROCESSES = 2
PREFETCH = 64

app = Celery("benchmarks.peers.celery_peer", broker=URL)
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=PREFETCH,
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="noop")
def noop(_payload: str, enqueued_at_s: float = 0.0) -> None:
    TALLY.tick(enqueued_at_s)


class CeleryQueue:
    config: Mapping[str, object] = {
        "worker": f"prefork -c {PROCESSES}, prefetch x{PREFETCH}, acks_late, ignore_result, "
        "no gossip, mingle or heartbeat",
        "redis": "appendfsync everysec",
    }

    def __init__(self) -> None:
        self._redis = redis.Redis.from_url(URL)

    def reset(self) -> None:
        self._redis.flushall()

    def ways(self) -> Mapping[str, Enqueue]:
        def call() -> object:
            return noop.delay(PAYLOAD)

        return {
            "single": lambda jobs: one_by_one(call, jobs),
            "concurrent": lambda jobs: by_threads(call, jobs, PLAN.callers),
        }

    def pace(self, rate_per_s: float, span_s: float) -> int:
        return paced(lambda now_s: noop.delay(PAYLOAD, now_s), rate_per_s, span_s)

    def worker_commands(self) -> Sequence[Sequence[str]]:
        celery = str(Path(sys.executable).parent / "celery")
        worker = [celery, "-A", "benchmarks.peers.celery_peer", "worker", "-P", "prefork"]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR"]
        return [[*worker, "-c", str(PROCESSES), *quiet]]

    def remaining(self) -> int:
        return int(self._redis.llen("celery") + self._redis.hlen("unacked"))


if __name__ == "__main__":
    # The workers import this module by its name: the tasks sent must be those of that name.
    from benchmarks.peers import celery_peer  # noqa: PLW0406  # on purpose, as said above

    compete(celery_peer.CeleryQueue(), PLAN)

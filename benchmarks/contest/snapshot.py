"""What an old snapshot costs: while one is held, no dead row version can be removed.

The queue is kept filled while its workers run, once without and once with a snapshot such as a
backup or a long report holds. Compared is the last quarter of both.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from urllib.parse import urlsplit

import psycopg

from benchmarks.contest import processes, tally
from benchmarks.contest.plan import Plan
from benchmarks.contest.queues import Queue, work_off

FILL = 5_000
BACKLOG = 20_000
LOOK_EVERY_S = 0.05


def loss_percent(queue: Queue, plan: Plan, config: dict[str, object]) -> float:
    control = _rate_per_s(queue, plan, with_snapshot=False)
    held = _rate_per_s(queue, plan, with_snapshot=True)
    config |= {
        "snapshot_s": plan.snapshot_s,
        "without_snapshot": round(control),
        "with_snapshot": round(held),
    }
    return 100 * (1 - held / control)


def _rate_per_s(queue: Queue, plan: Plan, *, with_snapshot: bool) -> float:
    queue.reset()
    tally.clear(plan.tallies)
    enqueue = queue.ways()["bulk"]
    enqueue(queued := FILL)
    with processes.running(queue.worker_commands(), plan.data) as workers:
        work_off(1, workers, plan.tallies, limit_s=plan.snapshot_s)
        server = plan.servers["postgres"]
        with _snapshots(server) if with_snapshot else nullcontext():
            began_s = time.monotonic()
            quarter_s, end_s = began_s + plan.snapshot_s * 3 / 4, began_s + plan.snapshot_s
            before: tuple[float, int] | None = None
            while (now_s := time.monotonic()) < end_s:
                workers.demand_alive()
                done = tally.read(plan.tallies).jobs
                if before is None and now_s >= quarter_s:
                    before = now_s, done
                if queued - done < BACKLOG:
                    enqueue(FILL)
                    queued += FILL
                else:
                    time.sleep(LOOK_EVERY_S)
            since_s, since = before or (began_s, 0)
            return (tally.read(plan.tallies).jobs - since) / (time.monotonic() - since_s)


@contextmanager
def _snapshots(server: str) -> Iterator[None]:
    """In every database, because a snapshot keeps the dead rows of its own database only."""
    with ExitStack() as held:
        with psycopg.connect(server) as connection:
            names = connection.execute("select datname from pg_database where datallowconn")
            databases = [name for (name,) in names]
        for name in databases:
            url = urlsplit(server)._replace(path=f"/{name}").geturl()
            reader = held.enter_context(psycopg.connect(url))
            reader.execute("set transaction isolation level repeatable read")
            reader.execute("select count(*) from pg_class")
        yield

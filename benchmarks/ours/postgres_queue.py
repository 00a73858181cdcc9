"""Homing on PostgreSQL, in the contest; two worker processes, as its peers have."""

from urllib.parse import urlsplit

import psycopg

from benchmarks.contest.plan import Plan
from benchmarks.contest.queues import compete
from benchmarks.ours.queue import HomingQueue

DATABASE = "homing"
PROCESSES = 2


def postgres_queue(plan: Plan, processes: int = PROCESSES) -> HomingQueue:
    """In a database of its own on the server that the peers use."""
    server = plan.servers["postgres"]

    def clear() -> None:
        with psycopg.connect(server, autocommit=True) as database:
            database.execute(f"drop database if exists {DATABASE} with (force)")
            database.execute(f"create database {DATABASE}")
            database.execute("checkpoint")

    store = urlsplit(server)._replace(path=f"/{DATABASE}").geturl()
    about = {"postgres": "default durability, delivered rows are kept"}
    return HomingQueue(plan, store, clear, about=about, processes=processes)


if __name__ == "__main__":
    PLAN = Plan.from_environment()
    compete(postgres_queue(PLAN), PLAN)

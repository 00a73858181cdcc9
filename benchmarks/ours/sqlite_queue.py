"""Homing on SQLite, in the contest; one worker process."""

import sqlite3

from benchmarks.contest.plan import Plan
from benchmarks.contest.queues import compete
from benchmarks.ours.app import remove
from benchmarks.ours.queue import HomingQueue


def sqlite_queue(plan: Plan) -> HomingQueue:
    file = plan.data / "homing.db"
    about = {"sqlite": f"{sqlite3.sqlite_version}, WAL, synchronous=FULL"}
    return HomingQueue(plan, file, lambda: remove(file), about=about)


if __name__ == "__main__":
    PLAN = Plan.from_environment()
    compete(sqlite_queue(PLAN), PLAN)

"""What the machine gives at this moment: without it no two runs can be compared."""

import os
import platform
import sqlite3
import sys
import time

from benchmarks.contest.plan import Plan, report

LOOPS = 3_000_000
BLOCK = bytes(1024)


def loops_per_s() -> float:
    began_s, total = time.perf_counter(), 0
    for number in range(LOOPS):
        total += number
    return LOOPS / (time.perf_counter() - began_s)


def fsyncs_per_s(plan: Plan) -> float:
    """Appends of 1 KB, each made durable: the ceiling of anything that groups nothing."""
    count, began_s = 0, time.perf_counter()
    with (plan.data / "fsync").open("wb", buffering=0) as file:
        while time.perf_counter() - began_s < plan.budget_s / 2:
            file.write(BLOCK)
            os.fdatasync(file.fileno())
            count += 1
    return count / (time.perf_counter() - began_s)


def main() -> None:
    plan = Plan.from_environment()
    report(
        {"loops": loops_per_s() / 1e6, "fsyncs": fsyncs_per_s(plan)},
        {
            "cores": os.cpu_count(),
            "python": sys.version.split()[0],
            "sqlite": sqlite3.sqlite_version,
            "system": f"{platform.system()} {platform.machine()}",
            "load": os.getloadavg(),
        },
    )


if __name__ == "__main__":
    main()

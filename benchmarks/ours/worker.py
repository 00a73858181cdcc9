"""One worker process: `python -m benchmarks.ours.worker FILE`, until SIGTERM."""

import asyncio
import signal
import sys
from pathlib import Path

from benchmarks.contest.plan import Plan
from benchmarks.contest.tally import Tally
from benchmarks.ours.app import Handle, open_homing
from homing import Assignment, Homing


def command(file: Path) -> list[str]:
    return [sys.executable, "-m", "benchmarks.ours.worker", str(file)]


async def work(file: Path, handle: Handle) -> None:
    await until_told_to_end(open_homing(file, handle))


async def until_told_to_end(homing: Homing) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with homing:
        await ended.wait()


def main() -> None:
    tally = Tally(Plan.from_environment().tallies)

    def count(assignment: Assignment) -> None:
        tally.tick(assignment.data["ts"])

    asyncio.run(work(Path(sys.argv[1]), count))


if __name__ == "__main__":
    main()

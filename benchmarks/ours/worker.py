"""One worker process: `python -m benchmarks.ours.worker URL`, until SIGTERM.

It runs as `homing worker` does.
"""

import asyncio
import signal
import sys
from pathlib import Path

from benchmarks.contest.plan import Plan
from benchmarks.contest.tally import Tally
from benchmarks.ours.app import Handle, open_homing
from homing import HandlerCall, Homing
from homing.runtime import long_running


def command(store: str | Path) -> list[str]:
    url = f"sqlite:///{store}" if isinstance(store, Path) else store
    return [sys.executable, "-m", "benchmarks.ours.worker", url]


async def work(url: str, handle: Handle) -> None:
    await until_told_to_end(open_homing(url, handle))


async def until_told_to_end(homing: Homing) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with homing:
        long_running.has_started()
        await ended.wait()


def main() -> None:
    tally = Tally(Plan.from_environment().tallies)

    def count(call: HandlerCall) -> None:
        tally.tick(call.data["ts"])

    long_running.run(work(sys.argv[1], count))


if __name__ == "__main__":
    main()

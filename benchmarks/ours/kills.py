"""SIGKILL of the worker under load, again and again, restarted at once.

How soon is what it held under way again, what is done twice, what is lost? The handler's ledger is
a mapped file with one byte per delivery: it survives the kill and knows nothing of the store.
"""

import asyncio
import mmap
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contest.plan import Plan, report
from benchmarks.ours.app import BULK, TYPE, event, open_homing, unsettled
from benchmarks.ours.worker import until_told_to_end
from homing import HandlerCall, Homing
from homing.ports import Facet, Query

# Handlers that wait a little, as real ones do: the backlog then lasts for the whole life.
HANDLER_S = 0.02
PER_KILL = 16_000
LIFE_S = (1.2, 2.0)
WINDOW_S = 1.0
POLL_S = 0.01
RESUME_LIMIT_S = 120.0
SETTLE_LIMIT_S = 180.0
IN_FLIGHT = Query(facets=(Facet(state="in_flight"),))


class Ledger:
    """How often each delivery was handled, by its number."""

    def __init__(self, file: Path) -> None:
        with file.open("r+b") as opened:
            self.marks = mmap.mmap(opened.fileno(), 0)

    def handled(self) -> int:
        raw = bytes(self.marks)
        return len(raw) - raw.count(0)


async def work(ledger: Ledger, file: Path) -> None:
    """The worker's side."""
    homing = Homing(f"sqlite:///{file}")

    @homing.on(TYPE, timeout_s=10.0)
    async def mark(call: HandlerCall) -> None:
        ledger.marks[call.data["number"]] += 1
        await asyncio.sleep(HANDLER_S)

    await until_told_to_end(homing)


async def enqueue(homing: Homing, first: int, jobs: int) -> None:
    for start in range(first, first + jobs, BULK):
        await homing.submit_many(
            [(str(number), event(number=number)) for number in range(start, start + BULK)]
        )


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill: when the held deliveries went on, and how the rates compare."""

    first_s: float
    last_s: float
    rate_share: float
    held: int


class Victims:
    """One worker at a time; each is killed and followed by the next."""

    def __init__(self, plan: Plan, homing: Homing) -> None:
        self._file = plan.data / "homing.db"
        self._ledger_file = plan.tallies / "ledger"
        self._ledger_file.write_bytes(bytes(plan.kills * PER_KILL))
        self._homing = homing
        self.ledger = Ledger(self._ledger_file)
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        module = "benchmarks.ours.kills"
        return subprocess.Popen(
            [sys.executable, "-m", module, str(self._ledger_file), str(self._file)]
        )

    async def kill_one(self, life_s: float) -> Kill:
        await self._until_it_works(self.ledger.handled())
        await asyncio.sleep(life_s - WINDOW_S)
        normal = await self._handled_in_window()
        self._process.kill()
        self._process.wait()
        killed_at_s = time.monotonic()
        before = bytes(self.ledger.marks)
        done = self.ledger.handled()
        self._process = self._start()
        # The next worker takes longer to start than this look does.
        held = await self._held_numbers()
        watching = asyncio.ensure_future(self._resumed_s(held, before, killed_at_s))
        await self._until_it_works(done)
        after = await self._handled_in_window()
        first_s, last_s = await watching
        return Kill(first_s, last_s, after / max(normal, 1), len(held))

    async def _until_it_works(self, done: int) -> None:
        while self.ledger.handled() == done:
            if self._process.poll() is not None:
                raise RuntimeError("the worker ended by itself")
            await asyncio.sleep(POLL_S)

    async def _handled_in_window(self) -> int:
        before = self.ledger.handled()
        await asyncio.sleep(WINDOW_S)
        return self.ledger.handled() - before

    async def _held_numbers(self) -> list[int]:
        page = await self._homing.store.page(IN_FLIGHT, limit=10_000)
        return [int(delivery.key or 0) for delivery in page.items]

    async def _resumed_s(
        self, held: Sequence[int], before: bytes, killed_at_s: float
    ) -> tuple[float, float]:
        """After how long the first and the last of them were handled again."""
        first_s, waiting = 0.0, list(held)
        while waiting:
            waiting = [n for n in waiting if self.ledger.marks[n] == before[n]]
            now_s = time.monotonic() - killed_at_s
            if now_s > RESUME_LIMIT_S:
                raise RuntimeError(f"{len(waiting)} deliveries were not resumed in {now_s:.0f} s")
            if not first_s and len(waiting) < len(held):
                first_s = now_s
            if waiting:
                await asyncio.sleep(POLL_S)
        return first_s, time.monotonic() - killed_at_s if held else 0.0

    async def settle(self) -> None:
        deadline_s = time.monotonic() + SETTLE_LIMIT_S
        while left := await unsettled(self._homing):
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"{left} deliveries are unsettled after {SETTLE_LIMIT_S} s")
            await asyncio.sleep(POLL_S * 20)

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()


async def measure(plan: Plan) -> tuple[list[Kill], bytes]:
    rng = random.Random(1)
    async with open_homing(plan.data / "homing.db") as homing:
        await enqueue(homing, 0, PER_KILL)
        victims = Victims(plan, homing)
        try:
            kills = []
            for number in range(plan.kills):
                if number + 1 < plan.kills:
                    await enqueue(homing, (number + 1) * PER_KILL, PER_KILL)
                kills.append(await victims.kill_one(rng.uniform(*LIFE_S)))
            await victims.settle()
        finally:
            victims.end()
        return kills, bytes(victims.ledger.marks)


def main() -> None:
    plan = Plan.from_environment()
    kills, marks = asyncio.run(measure(plan))
    jobs, missing = len(marks), marks.count(0)
    report(
        {
            "kill_duplicates": (sum(marks) - (jobs - missing)) / plan.kills,
            "kill_lost": missing,
            "recovery_first": max(kill.first_s for kill in kills),
            "recovery_last": max(kill.last_s for kill in kills),
            "recovery_rate": statistics.median(kill.rate_share for kill in kills) * 100,
        },
        {
            "deliveries": jobs,
            "kills": plan.kills,
            "held": [kill.held for kill in kills],
            "first_s": [round(kill.first_s, 2) for kill in kills],
            "last_s": [round(kill.last_s, 2) for kill in kills],
            "worker": "1 process, restarted at once",
        },
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(work(Ledger(Path(sys.argv[1])), Path(sys.argv[2])))
    else:
        main()

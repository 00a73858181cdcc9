"""Homing in the contest that every peer runs, on whatever store."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.contest.plan import Plan
from benchmarks.contest.stopwatch import Enqueue, by_tasks, paced_async
from benchmarks.ours import worker
from benchmarks.ours.app import BULK, event, keys, open_homing, unsettled
from homing import Homing
from homing.runtime import long_running


async def one_by_one(homing: Homing, jobs: int, callers: int) -> float:
    unique = keys()
    return await by_tasks(lambda: homing.submit(event(), key=next(unique)), jobs, callers)


async def in_bulk(homing: Homing, jobs: int) -> float:
    unique = keys()

    def chunk() -> Awaitable[object]:
        return homing.submit_many([(next(unique), event()) for _ in range(BULK)])

    return await by_tasks(chunk, jobs // BULK)


class HomingQueue:
    """`clear` leaves an empty store, or none."""

    def __init__(
        self,
        plan: Plan,
        store: str | Path,
        clear: Callable[[], None],
        *,
        about: Mapping[str, object],
        processes: int = 1,
    ) -> None:
        self._plan, self._store, self._clear, self._processes = plan, store, clear, processes
        self.config: Mapping[str, object] = {
            "worker": f"{processes} process" + ("es" if processes > 1 else ""),
            **about,
            "keys": "one idempotency key per delivery",
            "bulk": f"submit_many of {BULK} at a time",
        }

    async def _use(self, use: Callable[[Homing], Awaitable[float]]) -> float:
        async with open_homing(self._store) as homing:
            return await use(homing)

    def reset(self) -> None:
        self._clear()

    def ways(self) -> Mapping[str, Enqueue]:
        def callers(count: int) -> Enqueue:
            return lambda jobs: long_running.run(
                self._use(lambda homing: one_by_one(homing, jobs, count))
            )

        return {
            "single": callers(1),
            "concurrent": callers(self._plan.callers),
            "bulk": lambda jobs: long_running.run(self._use(lambda homing: in_bulk(homing, jobs))),
        }

    def pace(self, rate_per_s: float, span_s: float) -> int:
        unique = keys()

        async def paced(homing: Homing) -> float:
            return await paced_async(
                lambda now_s: homing.submit(event(now_s), key=next(unique)), rate_per_s, span_s
            )

        return int(long_running.run(self._use(paced)))

    def worker_commands(self) -> Sequence[Sequence[str]]:
        return [worker.command(self._store)] * self._processes

    def remaining(self) -> int:
        return int(long_running.run(self._use(unsettled)))

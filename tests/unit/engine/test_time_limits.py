"""Time limits of steps: each its own, many with one timer, and no one else's cancel is hidden."""

from __future__ import annotations

import asyncio

import pytest

from homing.engine.work.time_limits import TimeLimits
from tests.simulation.virtualtime import run


async def _after(delay_s: float) -> float:
    await asyncio.sleep(delay_s)
    return asyncio.get_running_loop().time()


async def _ends_at(limits: TimeLimits, delay_s: float, timeout_s: float) -> float | str:
    loop = asyncio.get_running_loop()
    try:
        await limits.bound(_after(delay_s), timeout_s)
    except TimeoutError:
        return f"cut at {loop.time():g}"
    return loop.time()


def test_what_does_not_wait_needs_no_task_and_no_time() -> None:
    async def at_once() -> str:
        return "done"

    async def main() -> str:
        return await TimeLimits().bound(at_once(), 0.0)

    assert run(main()) == "done"


def test_each_ends_by_its_own_limit_in_whatever_order_they_began() -> None:
    async def main() -> list[float | str]:
        limits = TimeLimits()
        begun = ((9, 5), (1, 2), (9, 3), (4, 7), (9, 3))
        return await asyncio.gather(*(_ends_at(limits, *one) for one in begun))

    assert run(main()) == ["cut at 5", 1.0, "cut at 3", 4.0, "cut at 3"]


def test_a_later_one_is_limited_after_all_before_it_have_ended() -> None:
    async def main() -> list[float | str]:
        limits = TimeLimits()
        return [await _ends_at(limits, delay_s, 2) for delay_s in (1, 9, 1)]

    assert run(main()) == [1.0, "cut at 3", 4.0]


def test_the_work_may_clean_up_when_its_time_is_over() -> None:
    cleaned: list[float] = []

    async def work() -> None:
        try:
            await asyncio.sleep(9)
        finally:
            await asyncio.sleep(1)
            cleaned.append(asyncio.get_running_loop().time())

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await TimeLimits().bound(work(), 2)

    run(main())
    assert cleaned == [3.0]


@pytest.mark.parametrize("cancelled_at_s", [1, 2])
def test_the_cancel_of_somebody_else_is_not_called_a_timeout(cancelled_at_s: float) -> None:
    async def main() -> bool:
        task = asyncio.ensure_future(TimeLimits().bound(asyncio.sleep(9), 2))
        asyncio.get_running_loop().call_at(cancelled_at_s, task.cancel)
        await asyncio.wait([task])
        return task.cancelled()

    assert run(main())


def test_one_limit_inside_another() -> None:
    async def main() -> str:
        limits = TimeLimits()
        try:
            await limits.bound(_inner(limits), 5)
        except TimeoutError:
            return f"outer at {asyncio.get_running_loop().time():g}"
        return "ended"

    async def _inner(limits: TimeLimits) -> None:
        with pytest.raises(TimeoutError):
            await limits.bound(asyncio.sleep(9), 2)
        await asyncio.sleep(9)

    assert run(main()) == "outer at 5"


def test_work_that_ends_well_after_its_time_leaves_no_cancel_behind() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(9)
        except asyncio.CancelledError:
            return "done all the same"
        return "slept"

    async def main() -> tuple[str, int]:
        limits = TimeLimits()
        ended = await limits.bound(stubborn(), 2)
        task = asyncio.current_task()
        assert task is not None
        return ended, task.cancelling()

    assert run(main()) == ("done all the same", 0)

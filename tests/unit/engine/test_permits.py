"""Permits: so many and no more, first come first served, several in one go."""

from __future__ import annotations

import asyncio

import pytest

from homing.engine.permits import Permits
from tests.unit.engine.world import quiet


async def test_all_that_are_free_are_taken_in_one_go() -> None:
    allowance = Permits(5)

    assert await allowance.take(3) == 3
    assert await allowance.take(3) == 2


async def test_who_comes_to_none_waits_for_the_first_and_takes_what_is_there_by_then() -> None:
    allowance = Permits(4)
    await allowance.take(4)
    waiting = asyncio.create_task(allowance.take(3))
    await quiet()
    assert not waiting.done()

    allowance.give_back()
    allowance.give_back()

    assert await waiting == 2


async def test_first_come_first_served() -> None:
    allowance = Permits(1)
    await allowance.take()
    order: list[str] = []

    async def come(name: str) -> None:
        await allowance.take()
        order.append(name)

    tasks = [asyncio.create_task(come(name)) for name in "abc"]
    await quiet()
    allowance.give_back()
    late = asyncio.create_task(come("d"))
    await quiet()
    allowance.give_back(3)

    await asyncio.gather(*tasks, late)
    assert order == ["a", "b", "c", "d"]


@pytest.mark.parametrize("called", [False, True])
async def test_who_gives_up_takes_none_and_stands_in_nobodys_way(called: bool) -> None:
    allowance = Permits(1)
    await allowance.take()
    first, second = (asyncio.create_task(allowance.take()) for _ in range(2))
    await quiet()
    if called:
        allowance.give_back()
    first.cancel()
    await quiet()
    if not called:
        allowance.give_back()

    assert await second == 1
    assert first.cancelled()

"""Permits: so many and no more, first come first served, several in one go."""

from __future__ import annotations

import asyncio

import pytest

from homing.engine.work.permits import WAIT_FOR_MORE_S, CommonPermits, Permits, ProcessPermits
from tests.simulation.virtualtime import run
from tests.unit.engine.world import quiet, route, stage


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


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("called", [False, True])
async def test_who_gives_up_takes_none_and_stands_in_nobodys_way(
    called: bool, shared: bool
) -> None:
    allowance = Permits(0, CommonPermits(1)) if shared else Permits(1)
    await allowance.take()
    first, second = (asyncio.create_task(allowance.take()) for _ in range(2))
    await quiet()
    if called:
        allowance.give_back()
    first.cancel()
    await quiet()
    if not called:
        allowance.give_back()

    async with asyncio.timeout(5):
        assert await second == 1
    assert first.cancelled()


async def test_several_permits_for_one_are_taken_together_or_not_at_all() -> None:
    permits = Permits(16)
    assert await permits.take(2, each=4) == 2
    alone = asyncio.create_task(permits.take(each=16))
    later = asyncio.create_task(permits.take())
    await quiet()
    permits.give_back(4)
    await quiet()
    assert not alone.done()
    assert not later.done(), "who came first is served first"

    permits.give_back(4)

    assert await alone == 1
    permits.give_back(16)
    assert await later == 1


async def test_what_is_ones_own_is_there_however_much_others_take() -> None:
    common = CommonPermits(4)
    a, b = Permits(8, common), Permits(8, common)

    assert await a.take(100) == 12
    assert await b.take(100) == 8
    waiting = asyncio.create_task(b.take(3))
    await quiet()
    assert not waiting.done()

    a.give_back(9)  # its own first, the rest is for all
    assert await waiting == 1
    assert a.free == 8


async def test_who_is_called_and_finds_nothing_left_stays_first() -> None:
    common = CommonPermits(2)
    a, b = Permits(2, common), Permits(2, common)
    assert (await a.take(4), await b.take(2)) == (4, 2)
    first, second = (asyncio.create_task(permit.take()) for permit in (a, b))
    await quiet()

    a.give_back()  # one of its own
    await quiet()
    assert (first.done(), second.done()) == (True, False)
    b.give_back()
    assert await second == 1


async def test_many_routes_share_what_there_is() -> None:
    routes = [route(stage("send", sends=True), name=str(number)) for number in range(20)]
    permits = ProcessPermits(routes)

    assert [await permits.of(each).sends.take(3) for each in routes] == [3] * 20
    assert await permits.of(route(name="other")).sends.take(100) == 4


def test_who_wants_many_waits_for_those_that_are_being_marked() -> None:
    async def main() -> list[int]:
        permits = Permits(4)
        await permits.take(4)
        with permits.being_marked():
            permits.give_back(1)
            waiting = asyncio.create_task(permits.take(4, worth=4))
            await asyncio.sleep(WAIT_FOR_MORE_S * 10)
            assert not waiting.done()
        permits.give_back(3)
        together = await waiting
        permits.give_back(1)
        alone = await permits.take(4, worth=4)
        return [together, alone]

    # Nothing is being marked while the second one waits: it takes what there is.
    assert run(main()) == [4, 1]

"""Waiting for work, and knowing when there will be some."""

from __future__ import annotations

import asyncio

from homing.domain.delivery import Change
from homing.ports import Store
from homing.testing import samples
from homing.testing.contract.opening import Opened
from homing.testing.samples import LEASE_MS, NOW_MS, QUEUE

LONG_S = 60.0
SOON_S = 10.0
"""Far less than `LONG_S`, and far more than any store needs."""


class Waiting(Opened):
    async def test_a_wait_for_nothing_ends(self, store: Store) -> None:
        async with asyncio.timeout(SOON_S):
            await store.wait(0.01)
            await store.wait(0.0)

    async def test_an_add_wakes_who_waits(self, store: Store) -> None:
        async with asyncio.timeout(SOON_S):
            waiting = await self._asleep(store)
            await store.add(samples.many(1))
            await waiting

    async def test_a_retry_saved_wakes_who_waits(self, store: Store) -> None:
        await store.add(samples.many(1))
        (held,) = await store.claim(samples.claim())
        async with asyncio.timeout(SOON_S):
            waiting = await self._asleep(store)
            await store.save([samples.retry(held.delivery)])
            await waiting

    async def test_one_of_several_saved_wakes_who_waits(self, store: Store) -> None:
        await store.add(samples.many(2))
        first, second = [c.delivery for c in await store.claim(samples.claim())]
        async with asyncio.timeout(SOON_S):
            waiting = await self._asleep(store)
            await store.save([samples.retry(first), samples.ended(second)])
            await waiting

    async def test_an_ended_lease_wakes_who_waits(self, store: Store) -> None:
        await store.add(samples.many(1))
        (held,) = await store.claim(samples.claim())
        async with asyncio.timeout(SOON_S):
            waiting = await self._asleep(store)
            await store.save([Change(samples.changed(held.delivery, due_at_ms=NOW_MS))])
            await waiting

    async def test_the_last_child_wakes_who_waits(self, store: Store) -> None:
        child = samples.child("a", "p")
        await store.add([samples.new("p", state="waiting", children=[child])])
        async with asyncio.timeout(SOON_S):
            waiting = await self._asleep(store)
            await store.save([samples.ended(child.delivery)])
            await waiting

    async def test_what_came_before_the_wait_is_not_slept_through(self, store: Store) -> None:
        """Between an empty claim and the wait that follows it nothing may be missed."""
        async with asyncio.timeout(SOON_S):
            await store.wait(0.01)
            assert await store.claim(samples.claim()) == []
            await store.add(samples.many(1))
            await store.wait(LONG_S)

    async def test_several_may_wait(self, store: Store) -> None:
        async with asyncio.timeout(SOON_S):
            waiting = [await self._asleep(store) for _ in range(3)]
            await store.add(samples.many(1))
            await asyncio.gather(*waiting)

    @staticmethod
    async def _asleep(store: Store) -> asyncio.Task[None]:
        """A task that waits, once all that was told before has been slept off."""
        await store.wait(0.01)
        waiting = asyncio.ensure_future(store.wait(LONG_S))
        for _ in range(10):
            await asyncio.sleep(0)
        return waiting


class KnowingWhen(Opened):
    async def test_with_nothing_to_do_there_is_no_next_time(self, store: Store) -> None:
        assert await store.next_due_ms((QUEUE,)) is None
        assert await store.next_due_ms(()) is None

    async def test_the_next_time_is_the_earliest_of_the_queues(self, store: Store) -> None:
        await store.add(
            [
                samples.new("a", queue="x", due_at_ms=NOW_MS + 5),
                samples.new("b", queue="x", due_at_ms=NOW_MS + 9, priority=1),
                samples.new("c", queue="y", due_at_ms=NOW_MS + 3, priority=4),
                samples.new("d", queue="z", due_at_ms=NOW_MS - 1),
                samples.new("e", queue="n", due_at_ms=None),
            ]
        )

        assert await store.next_due_ms(("x",)) == NOW_MS + 5
        assert await store.next_due_ms(("x", "y")) == NOW_MS + 3
        assert await store.next_due_ms(("z", "x", "y")) == NOW_MS - 1
        assert await store.next_due_ms(("n", "unknown")) is None

    async def test_the_end_of_a_lease_counts(self, store: Store) -> None:
        await store.add(samples.many(1))
        (held,) = await store.claim(samples.claim())
        assert await store.next_due_ms((QUEUE,)) == NOW_MS + LEASE_MS

        await store.renew("w1", [(held.delivery.id, held.delivery.version)], NOW_MS + 99_000)
        assert await store.next_due_ms((QUEUE,)) == NOW_MS + 99_000

        await store.save([samples.ended(held.delivery)])
        assert await store.next_due_ms((QUEUE,)) is None

    async def test_it_moves_with_what_is_saved(self, store: Store) -> None:
        await store.add(samples.many(1))
        (held,) = await store.claim(samples.claim())
        retry = samples.changed(held.delivery, state="pending", due_at_ms=NOW_MS + 1234)

        await store.save([Change(retry)])

        assert await store.next_due_ms((QUEUE,)) == NOW_MS + 1234

"""One handle shared by many callers: an error of one of them does not affect the others."""

from __future__ import annotations

import asyncio

import pytest

from homing.ports import Added, Query, Store
from homing.testing import samples
from homing.testing.contract.opening import Opened
from homing.testing.samples import SOURCE


class Sharing(Opened):
    async def test_concurrent_calls_are_each_answered(self, store: Store) -> None:
        """Whatever a store gathers into one commit, each caller gets its own answer."""

        async def live(number: int) -> str | None:
            delivery_id, queue = f"d{number}", f"queue{number}"
            new = samples.keyed(delivery_id, delivery_id, queue=queue)
            assert await store.add([new]) == [Added(delivery_id)]
            (held,) = await store.claim(samples.claim(queues=(queue,)))
            assert held.delivery.id == delivery_id
            assert await store.save([samples.ended(held.delivery)]) == [True]
            assert await store.save([samples.ended(held.delivery)]) == [False]
            stored = await store.get(delivery_id)
            return stored.id if stored else None

        lives = await asyncio.gather(*(live(number) for number in range(64)))

        assert lives == [f"d{number}" for number in range(64)]
        assert await store.count(Query(), by=("state",)) == {("delivered",): 64}

    async def test_callers_that_give_up_leave_all_or_nothing_i2(self, store: Store) -> None:
        names = [f"d{number:02}" for number in range(40)]
        calls = [asyncio.ensure_future(store.add([samples.keyed(n, n)])) for n in names]
        for _ in range(2):
            await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()

        answers = await asyncio.gather(*calls, return_exceptions=True)

        assert answers[1::2] == [[Added(name)] for name in names[1::2]]
        assert await store.add([samples.new("after")]) == [Added("after")]
        for name in names:
            is_stored = await store.get(name) is not None
            assert is_stored is (await store.content(name) is not None)
            assert is_stored is (await store.find(SOURCE, name) is not None)

    @pytest.mark.parametrize("impossible", ["\ud800", "\x00"])
    async def test_one_that_cannot_be_stored_harms_no_other(
        self, store: Store, impossible: str
    ) -> None:
        """A store may refuse a lone surrogate or a NUL, but only to the caller that sent it."""
        names = [f"d{number}" for number in range(20)]
        odd = samples.keyed("odd", impossible, facts=[samples.fact("odd")])

        answers = await asyncio.gather(
            *(store.add([samples.keyed(name, name)]) for name in names[:10]),
            store.add([odd]),
            *(store.add([samples.keyed(name, name)]) for name in names[10:]),
            return_exceptions=True,
        )

        refused = answers.pop(10)
        assert refused == [Added("odd")] or isinstance(refused, Exception)
        assert answers == [[Added(name)] for name in names]
        is_stored = refused == [Added("odd")]
        assert is_stored is (await store.get("odd") is not None)
        assert is_stored is bool(await store.facts("note"))

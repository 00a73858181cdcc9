"""Reopening: what was answered is still there for a restarted or a second process (I1)."""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain.delivery import Change, Content
from homing.ports import Added, Existing, Query, Store
from homing.testing import samples
from homing.testing.contract.opening import Opened, Opener
from homing.testing.samples import LEASE_MS, NOW_MS, QUEUE, SOURCE


class Reopening(Opened):
    async def test_everything_is_there_after_a_restart_i1(
        self, store: Store, opener: Opener
    ) -> None:
        new = samples.keyed("d1", "order-1", payload=b"body")
        await store.add([new, samples.new("d2", due_at_ms=NOW_MS + 5)])
        (held,) = await store.claim(samples.claim("w1"))
        await store.save(
            [Change(held.delivery, ended=(samples.attempt("d1"),), results={"send": b"x"})],
            facts=[samples.fact("k", n=1)],
        )
        await store.close()

        again = await opener.open()

        assert await again.get("d1") == replace(held.delivery, version=held.delivery.version + 1)
        assert await again.content("d1") == Content(b"body", {"send": b"x"})
        assert await again.find(SOURCE, "order-1") == new.keys[0]
        assert await again.attempts("d1") == [samples.attempt("d1")]
        assert await again.facts("note") == [samples.fact("k", n=1)]
        assert await again.next_due_ms((QUEUE,)) == NOW_MS + 5
        assert await again.count(Query()) == {(): 2}
        assert await again.add([new]) == [Existing("d1", new.keys[0])]

    async def test_a_lease_and_its_fence_outlive_a_restart_i11(
        self, store: Store, opener: Opener
    ) -> None:
        await store.add(samples.many(1))
        (held,) = await store.claim(samples.claim("w1"))
        await store.close()

        again = await opener.open()

        assert await again.claim(samples.claim("w2")) == []
        (taken,) = await again.claim(samples.claim("w2", at_ms=NOW_MS + LEASE_MS))
        assert taken.delivery.unsettled_claims == 2
        assert await again.save([samples.ended(held.delivery)]) == [False]
        assert await again.save([samples.ended(taken.delivery)]) == [True]

    async def test_a_second_handle_sees_each_write_at_once(
        self, store: Store, other: Store
    ) -> None:
        for number in range(5):
            delivery_id = f"d{number}"
            assert await store.add([samples.keyed(delivery_id, delivery_id)]) == [
                Added(delivery_id)
            ]
            assert await other.find(SOURCE, delivery_id) is not None
            (held,) = await other.claim(samples.claim("w2"))
            assert await store.get(delivery_id) == held.delivery
            assert await store.save([samples.ended(held.delivery)]) == [True]
            assert await other.count(Query(), by=("state",)) == {("delivered",): number + 1}

    async def test_one_handle_may_close_while_another_goes_on(
        self, store: Store, other: Store
    ) -> None:
        await store.add(samples.many(2))
        await other.close()

        assert await store.count(Query()) == {(): 2}
        assert await store.add(samples.many(3)) == [
            Existing("d00000"),
            Existing("d00001"),
            Added("d00002"),
        ]

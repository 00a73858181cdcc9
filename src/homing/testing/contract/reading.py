"""Reading: every field comes back as it was written."""

from __future__ import annotations

import itertools

from hypothesis import given
from msgspec.structs import replace

from homing.domain.delivery import Attempt, Change, Content, Delivery, Fact, Key, New
from homing.ports import Query, Store
from homing.testing import samples
from homing.testing.contract.filled import filled_delivery
from homing.testing.contract.generated import EXAMPLES, structs
from homing.testing.contract.opening import Opened
from homing.testing.samples import NOW_MS

# The store is shared by all examples of a case: each takes an id of its own.
_fresh = itertools.count()


def fresh_id() -> str:
    return f"example-{next(_fresh)}"


class Reading(Opened):
    async def test_what_is_unknown_is_none(self, store: Store) -> None:
        assert await store.get("unknown") is None
        assert await store.content("unknown") is None
        assert await store.find("shop", "unknown") is None
        assert await store.attempts("unknown") == []
        assert await store.facts("unknown") == []
        assert (await store.page(Query())).items == ()
        assert await store.count(Query()) == {(): 0}

    async def test_many_are_read_in_the_order_asked_for(self, store: Store) -> None:
        await store.add([samples.new("d1"), samples.new("d2")])

        found = await store.get_many(["d2", "unknown", "d1", "d2"])

        assert [one and one.id for one in found] == ["d2", None, "d1", "d2"]
        assert await store.get_many([]) == []

    async def test_every_field_of_a_delivery_is_kept(self, store: Store) -> None:
        whole = filled_delivery("d1")

        await store.add([New(whole)])

        assert await store.get("d1") == whole
        assert (await store.page(Query())).items == (whole,)

    async def test_a_payload_is_bytes_and_stays_so(self, store: Store) -> None:
        every_byte = bytes(range(256))
        await store.add([samples.new("d1", payload=every_byte), samples.new("d2", payload=b"")])
        big = every_byte * 4096
        held = samples.delivery("d1")
        await store.save([Change(held, results={"send": big, "": b""})])

        assert await store.content("d1") == Content(every_byte, {"send": big, "": b""})
        assert await store.content("d2") == Content(b"", {})

    @EXAMPLES
    @given(delivery=structs(Delivery))
    async def test_any_delivery_comes_back_equal(self, store: Store, delivery: Delivery) -> None:
        delivery = replace(delivery, id=fresh_id(), version=1)
        expected = replace(delivery, open_children=0)
        if delivery.state == "waiting":
            expected = replace(expected, due_at_ms=delivery.updated_at_ms)

        await store.add([New(delivery)])
        assert await store.get(delivery.id) == expected

        await store.save([Change(delivery)])
        assert await store.get(delivery.id) == replace(expected, version=2)

    @EXAMPLES
    @given(attempt=structs(Attempt))
    async def test_any_attempt_comes_back_equal(self, store: Store, attempt: Attempt) -> None:
        attempt = replace(attempt, delivery_id=fresh_id())
        delivery = samples.delivery(attempt.delivery_id)
        await store.add([New(delivery)])

        await store.save([Change(delivery, ended=(attempt,))])

        assert await store.attempts(attempt.delivery_id) == [attempt]

    @EXAMPLES
    @given(key=structs(Key))
    async def test_any_key_comes_back_equal(self, store: Store, key: Key) -> None:
        delivery_id = fresh_id()
        key = replace(key, source=f"{delivery_id}/{key.source}", delivery_id=delivery_id)

        await store.add([samples.new(delivery_id, keys=[key])])

        assert await store.find(key.source, key.key) == key

    @EXAMPLES
    @given(fact=structs(Fact))
    async def test_any_fact_comes_back_equal(self, store: Store, fact: Fact) -> None:
        fact = replace(fact, kind=fresh_id())

        await store.save([], facts=[fact])

        assert await store.facts(fact.kind) == ([] if fact.value is None else [fact])

    async def test_times_before_and_far_after_now_are_kept(self, store: Store) -> None:
        for number, at_ms in enumerate((0, 1, NOW_MS, 2**45)):
            new = samples.new(f"d{number}", created_at_ms=at_ms, due_at_ms=at_ms)
            await store.add([new])
            assert await store.get(f"d{number}") == new.delivery

"""Adding: unless taken, all or nothing, in batches.

Invariants: accept is durable (I1) and atomic (I2), one intent per key (I3).
"""

from __future__ import annotations

import pytest

from homing.domain.delivery import Content, Fact, Recipient
from homing.ports import Added, Existing, Query, Store
from homing.testing import samples
from homing.testing.contract.opening import Opened
from homing.testing.samples import NOW_MS, SOURCE


class Adding(Opened):
    async def test_what_was_added_is_found_by_id_and_key_i1(self, store: Store) -> None:
        new = samples.keyed("d1", "order-1", payload=b"\x00raw\xff")

        assert await store.add([new]) == [Added("d1")]

        assert await store.get("d1") == new.delivery
        assert await store.content("d1") == Content(b"\x00raw\xff", {})
        assert await store.find(SOURCE, "order-1") == new.keys[0]

    @pytest.mark.parametrize("more", ["nothing", "recipient", "fact", "fact of the call"])
    async def test_one_with_a_key_is_stored_with_all_that_it_has_i2(
        self, store: Store, more: str
    ) -> None:
        """The most common add, for which a store may have a way of its own."""
        ann = (Recipient("ann@example.org"),) if more == "recipient" else ()
        own = [samples.fact("own")] if more == "fact" else []
        beside = [samples.fact("beside")] if more == "fact of the call" else []
        new = samples.keyed("d1", "order-1", recipients=ann, facts=own)

        assert await store.add([new], beside) == [Added("d1")]

        assert await store.find(SOURCE, "order-1") == new.keys[0]
        assert await store.facts("note") == [*own, *beside]
        for_ann = await store.page(Query(recipient="ann@example.org"))
        assert for_ann.items == ((new.delivery,) if ann else ())

    async def test_a_batch_is_answered_in_its_order(self, store: Store) -> None:
        await store.add([samples.keyed("d1", "one")])

        answers = await store.add(
            [samples.new("d2"), samples.keyed("d3", "one"), samples.new("d4")]
        )

        assert answers == [Added("d2"), Existing("d1", samples.key("one", "d1")), Added("d4")]
        assert await store.get("d3") is None

    async def test_nothing_to_add_is_no_error(self, store: Store) -> None:
        assert await store.add([]) == []

    async def test_a_taken_key_names_its_delivery_and_fingerprint_i3(self, store: Store) -> None:
        key = samples.key("order-1", "d1", fingerprint="f00d", expires_at_ms=NOW_MS + 1)
        await store.add([samples.new("d1", keys=[key])])

        answers = await store.add([samples.keyed("d2", "order-1")])

        assert answers == [Existing("d1", key)]
        assert await store.get("d2") is None
        assert await store.content("d2") is None
        assert await store.find(SOURCE, "order-1") == key

    async def test_a_taken_id_is_told_without_a_key(self, store: Store) -> None:
        await store.add([samples.new("d1", payload=b"first")])

        assert await store.add([samples.keyed("d1", "other")]) == [Existing("d1", None)]

        assert await store.content("d1") == Content(b"first", {})
        assert await store.find(SOURCE, "other") is None

    async def test_a_repeated_add_is_answered_with_its_key(self, store: Store) -> None:
        """After an add whose answer was lost, the same add shows that it was stored."""
        new = samples.keyed("d1", "order-1")
        await store.add([new])

        assert await store.add([new]) == [Existing("d1", new.keys[0])]

    async def test_repetitions_among_new_ones_are_seen_each_time(self, store: Store) -> None:
        """A store may assume that keys are new, as long as it notices that they are not."""
        first = samples.keyed("d0", "order-0")
        await store.add([first])

        for number in range(1, 4):
            new = samples.keyed(f"d{number}", f"order-{number}")
            assert await store.add([new, first]) == [
                Added(f"d{number}"),
                Existing("d0", first.keys[0]),
            ]
            assert await store.get(f"d{number}") == new.delivery

        assert await store.count(Query()) == {(): 4}

    async def test_duplicates_inside_one_call_are_seen(self, store: Store) -> None:
        answers = await store.add(
            [samples.keyed("d1", "same"), samples.keyed("d2", "same"), samples.new("d1")]
        )

        assert answers == [Added("d1"), Existing("d1", samples.key("same", "d1")), Existing("d1")]
        assert await store.get("d2") is None

    async def test_one_of_several_keys_taken_takes_none(self, store: Store) -> None:
        await store.add([samples.keyed("d1", "b")])
        keys = [samples.key(name, "d2") for name in ("a", "b", "c")]

        assert await store.add([samples.new("d2", keys=keys)]) == [
            Existing("d1", samples.key("b", "d1"))
        ]

        assert await store.find(SOURCE, "a") is None
        assert await store.find(SOURCE, "c") is None

    async def test_all_keys_of_a_delivery_stand_for_it(self, store: Store) -> None:
        keys = [samples.key("a", "d1"), samples.key("b", "d1", source="other")]
        await store.add([samples.new("d1", keys=keys)])

        assert await store.find(SOURCE, "a") == keys[0]
        assert await store.find("other", "b") == keys[1]
        assert await store.find(SOURCE, "b") is None

    @pytest.mark.parametrize(
        ("expires_at_ms", "owner"), [(None, "d1"), (NOW_MS + 1, "d1"), (NOW_MS, "d2")]
    )
    async def test_a_key_is_taken_until_it_expires(
        self, store: Store, expires_at_ms: int | None, owner: str
    ) -> None:
        """Time is the new delivery's: the store reads no clock."""
        old = samples.key("order-1", "d1", expires_at_ms=expires_at_ms)
        await store.add([samples.new("d1", keys=[old], created_at_ms=NOW_MS - 1000)])

        (answer,) = await store.add([samples.keyed("d2", "order-1", created_at_ms=NOW_MS)])

        assert answer == (Existing("d1", old) if owner == "d1" else Added("d2"))
        found = await store.find(SOURCE, "order-1")
        assert found is not None
        assert found.delivery_id == owner

    async def test_an_expired_key_leaves_its_delivery_alone(self, store: Store) -> None:
        old = samples.keyed("d1", "order-1").delivery
        key = samples.key("order-1", "d1", expires_at_ms=NOW_MS - 1)
        await store.add([samples.new("d1", key="order-1", keys=[key])])
        await store.add([samples.keyed("d2", "order-1")])

        assert await store.get("d1") == old
        both = await store.page(Query(source=SOURCE, key="order-1"))
        assert [d.id for d in both.items] == ["d2", "d1"]

    async def test_facts_of_a_delivery_are_written_only_with_it_i2(self, store: Store) -> None:
        await store.add([samples.keyed("d1", "same", facts=[samples.fact("first")])])
        await store.add(
            [samples.keyed("d2", "same", facts=[samples.fact("second")])],
            facts=[samples.fact("conflict")],
        )

        assert [fact.key for fact in await store.facts("note")] == ["conflict", "first"]

    async def test_facts_of_the_call_need_no_delivery(self, store: Store) -> None:
        fact = Fact("malformed", "entry-1", NOW_MS, {"reason": "no recipient"})

        assert await store.add([], facts=[fact]) == []

        assert await store.facts("malformed") == [fact]

    async def test_it_may_be_stored_already_claimed(self, store: Store) -> None:
        new = samples.new(
            "d1", state="in_flight", holder="w1", due_at_ms=NOW_MS + 1, claimed_at_ms=NOW_MS
        )
        await store.add([new])

        assert await store.get("d1") == new.delivery
        assert await store.claim(samples.claim("w2")) == []
        assert await store.renew("w1", [("d1", 1)], NOW_MS + 2) == [True]

    async def test_a_big_batch_is_stored_whole(self, store: Store) -> None:
        news = [samples.keyed(f"d{number:05}", f"k{number}") for number in range(5000)]

        answers = await store.add(news)

        assert answers == [Added(new.delivery.id) for new in news]
        assert await store.count(Query()) == {(): 5000}
        assert await store.get("d04999") == news[-1].delivery
        assert len(await store.add(news[2500:])) == 2500
        assert await store.count(Query()) == {(): 5000}

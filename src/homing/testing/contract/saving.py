"""Saving: compare and set by version, in batches; a lost claim writes nothing (fencing, I11)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from homing.domain.delivery import Change, Content, Delivery, State
from homing.ports import Query, Store
from homing.testing import samples
from homing.testing.contract.filled import filled_delivery
from homing.testing.contract.opening import Opened
from homing.testing.samples import LEASE_MS, NOW_MS, SOURCE


async def one_claimed(store: Store, delivery_id: str = "d1", **fields: Any) -> Delivery:
    await store.add([samples.new(delivery_id, **fields)])
    (claimed,) = await store.claim(samples.claim("w1"))
    return claimed.delivery


class Saving(Opened):
    async def test_a_change_is_written_over_the_version_read(self, store: Store) -> None:
        held = await one_claimed(store)
        change = samples.ended(held, at_ms=NOW_MS + 7)

        assert await store.save([change]) == [True]

        assert await store.get("d1") == replace(change.delivery, version=held.version + 1)

    async def test_every_field_of_a_change_is_written(self, store: Store) -> None:
        await store.add([samples.new("d1")])
        whole = filled_delivery("d1", version=1, state="pending")

        assert await store.save([Change(whole)]) == [True]

        assert await store.get("d1") == replace(whole, version=2)

    async def test_and_back_to_their_defaults(self, store: Store) -> None:
        whole = filled_delivery("d1", version=1)
        await store.add([samples.new("d2"), replace(samples.new("d1"), delivery=whole)])
        plain = samples.delivery("d1", source="", due_at_ms=None)

        assert await store.save([Change(plain)]) == [True]

        assert await store.get("d1") == replace(plain, version=2)

    async def test_a_batch_is_answered_in_its_order_i11(self, store: Store) -> None:
        await store.add(samples.many(4))
        held = [c.delivery for c in await store.claim(samples.claim("w1"))]
        await store.save([samples.ended(held[1])])
        stale = samples.ended(held[1], "failed")
        unknown = samples.ended(samples.delivery("unknown"))

        saved = await store.save(
            [samples.ended(held[0]), stale, unknown, samples.ended(held[2]), samples.ended(held[3])]
        )

        assert saved == [True, False, False, True, True]
        assert await store.count(Query(), by=("state",)) == {("delivered",): 4}

    async def test_nothing_to_save_is_no_error(self, store: Store) -> None:
        assert await store.save([]) == []

    async def test_of_two_changes_in_one_call_the_first_wins(self, store: Store) -> None:
        held = await one_claimed(store)

        saved = await store.save([samples.ended(held), samples.ended(held, "suppressed")])

        assert saved == [True, False]
        stored = await store.get("d1")
        assert stored is not None
        assert stored.state == "delivered"

    @pytest.mark.parametrize("version_read", [0, 1, 3, 99])
    async def test_a_stale_version_writes_nothing_at_all_i11(
        self, store: Store, version_read: int
    ) -> None:
        """Not the record, nor its attempts, results, children, keys, counts or facts."""
        family = samples.new("p", state="waiting", children=[samples.child("d1", "p")])
        await store.add([family])
        (claimed,) = await store.claim(samples.claim("w1"))
        held = claimed.delivery
        assert held.version == 2
        stale = Change(
            replace(samples.ended(held).delivery, version=version_read),
            ended=(samples.attempt("d1"),),
            results={"send": b"x"},
            drop_results=True,
            payload=b"other",
            children=(samples.keyed("d2", "k"),),
            child_delta=-1,
            facts=(samples.fact("of the change"),),
        )
        before = await store.get("p")

        saved = await store.save([stale, replace(stale, forget=True)])

        assert saved == [False, False]
        assert await store.get("d1") == held
        assert await store.content("d1") == Content(b"hello", {})
        assert await store.attempts("d1") == []
        assert await store.get("d2") is None
        assert await store.find(SOURCE, "k") is None
        assert await store.get("p") == before
        assert await store.facts("note") == []

    async def test_the_zombie_writes_nothing_after_its_lease_was_taken_i11(
        self, store: Store
    ) -> None:
        zombie = await one_claimed(store)
        (owner,) = await store.claim(samples.claim("w2", at_ms=NOW_MS + LEASE_MS))

        assert await store.save([samples.ended(zombie, "failed")]) == [False]

        assert await store.get("d1") == owner.delivery
        assert await store.save([samples.ended(owner.delivery)]) == [True]

    async def test_a_repeated_save_is_refused_and_get_shows_what_was_written(
        self, store: Store
    ) -> None:
        """After a save whose answer was lost, reading again tells what happened."""
        held = await one_claimed(store)
        change = replace(samples.ended(held), ended=(samples.attempt("d1", status="done"),))
        await store.save([change])

        assert await store.save([change]) == [False]

        assert await store.get("d1") == replace(change.delivery, version=held.version + 1)
        assert await store.attempts("d1") == list(change.ended)

    async def test_facts_of_a_change_are_written_only_with_it(self, store: Store) -> None:
        held = await one_claimed(store)
        good = replace(samples.ended(held), facts=(samples.fact("good"),))
        lost = replace(good, facts=(samples.fact("lost"),))

        await store.save([good, lost], facts=[samples.fact("late outcome")])

        assert [fact.key for fact in await store.facts("note")] == ["good", "late outcome"]

    async def test_facts_of_the_call_are_written_even_when_all_was_lost(self, store: Store) -> None:
        lost = samples.ended(samples.delivery("unknown"))

        assert await store.save([lost], facts=[samples.fact("late")]) == [False]
        assert await store.save([], facts=[samples.fact("alone")]) == []

        assert [fact.key for fact in await store.facts("note")] == ["alone", "late"]

    @pytest.mark.parametrize("state", ["pending", "in_flight"])
    async def test_a_due_time_saved_is_a_due_time_claimed(self, store: Store, state: State) -> None:
        held = await one_claimed(store)
        later = samples.changed(held, state=state, due_at_ms=NOW_MS + 5)
        await store.save([Change(later)])

        assert await store.claim(samples.claim("w2", at_ms=NOW_MS + 4)) == []
        assert len(await store.claim(samples.claim("w2", at_ms=NOW_MS + 5))) == 1

    async def test_queue_and_priority_may_change(self, store: Store) -> None:
        held = await one_claimed(store)
        moved = samples.changed(
            held, state="pending", holder=None, due_at_ms=NOW_MS, queue="fast", priority=1
        )
        await store.save([Change(moved)])
        await store.add([samples.new("d0", queue="fast")])

        assert await store.claim(samples.claim()) == []
        taken = await store.claim(samples.claim(queues=("fast",)))
        assert [c.delivery.id for c in taken] == ["d1", "d0"]

    async def test_a_big_batch_is_saved_whole(self, store: Store) -> None:
        await store.add(samples.many(5000))
        held = [c.delivery for c in await store.claim(samples.claim(limit=5000))]
        assert len(held) == 5000
        changes = [replace(samples.ended(one), ended=(samples.attempt(one.id),)) for one in held]

        assert await store.save(changes) == [True] * 5000

        assert await store.count(Query(), by=("state",)) == {("delivered",): 5000}
        assert await store.attempts("d04999") == [samples.attempt("d04999")]

"""What a delivery carries: payload, kept results, ended attempts."""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain.delivery import Attempt, Change, Content
from homing.ports import Query, Store
from homing.testing import samples
from homing.testing.contract.filled import filled
from homing.testing.contract.opening import Opened
from homing.testing.contract.saving import one_claimed
from homing.testing.samples import LEASE_MS, NOW_MS, SOURCE


class Carrying(Opened):
    async def test_results_are_merged_by_name(self, store: Store) -> None:
        held = await one_claimed(store)
        await store.save([Change(held, results={"fetch": b"1", "llm": b"old"})])
        await store.save([Change(replace(held, version=3), results={"llm": b"new"})])

        assert await store.content("d1") == Content(b"hello", {"fetch": b"1", "llm": b"new"})

    async def test_dropped_results_are_gone_before_new_ones_come(self, store: Store) -> None:
        held = await one_claimed(store)
        await store.save([Change(held, results={"fetch": b"1", "llm": b"old"})])
        restart = Change(replace(held, version=3), results={"llm": b"new"}, drop_results=True)
        await store.save([restart])

        assert await store.content("d1") == Content(b"hello", {"llm": b"new"})

    async def test_an_amended_payload_keeps_every_old_one(self, store: Store) -> None:
        """Results of stages go; what was once asked for stays readable under its number."""
        first = await one_claimed(store, payload=b"one")
        await store.save([Change(first, results={"send": b"frozen"})])
        second = samples.changed(first, version=3, payload_no=2)
        await store.save([Change(second, payload=b"two", drop_results=True)])
        third = samples.changed(second, version=4, payload_no=3)
        await store.save([Change(third, payload=b"", drop_results=True)])

        content = await store.content("d1")

        assert content == Content(b"", {"payload.1": b"one", "payload.2": b"two"})

    async def test_a_change_that_carries_nothing_keeps_what_is_carried(self, store: Store) -> None:
        held = await one_claimed(store, payload=b"one")
        await store.save([Change(held, results={"send": b"frozen"})])
        await store.save([samples.ended(replace(held, version=3))])

        assert await store.content("d1") == Content(b"one", {"send": b"frozen"})

    async def test_attempts_are_kept_in_the_order_of_their_numbers(self, store: Store) -> None:
        held = await one_claimed(store)
        await store.add([samples.new("d2")])
        tenth, second, first = (samples.attempt("d1", number) for number in (10, 2, 1))
        await store.save([Change(held, ended=(tenth, first))])
        await store.save([Change(replace(held, version=3), ended=(second,))])

        assert await store.attempts("d1") == [first, second, tenth]
        assert await store.attempts("d2") == []

    async def test_attempts_of_many_are_read_in_the_order_asked_for(self, store: Store) -> None:
        held = await one_claimed(store)
        tenth, first = (samples.attempt("d1", number) for number in (10, 1))
        await store.save([Change(held, ended=(tenth, first))])
        delivered = samples.ended(await one_claimed(store, "d2"))
        await store.save([delivered])

        found = await store.attempts_of_many(["unknown", "d2", "d1", "d1"])

        assert found == [[], list(delivered.ended), [first, tenth], [first, tenth]]
        assert await store.attempts_of_many([]) == []

    async def test_an_attempt_written_again_is_replaced(self, store: Store) -> None:
        held = await one_claimed(store)
        first = samples.attempt("d1", 1, status="interrupted")
        corrected = samples.attempt("d1", 1, status="done", notification_id="<1@example.org>")
        await store.save([Change(held, ended=(first,))])
        await store.save([Change(replace(held, version=3), ended=(corrected,))])

        assert await store.attempts("d1") == [corrected]

    async def test_every_field_of_an_attempt_is_kept(self, store: Store) -> None:
        held = await one_claimed(store)
        whole = filled(Attempt, delivery_id="d1")
        await store.save([Change(held, ended=(whole,))])

        assert await store.attempts("d1") == [whole]

    async def test_what_is_forgotten_leaves_only_its_key(self, store: Store) -> None:
        new = samples.keyed("d1", "order-1")
        await store.add([new, samples.new("d2")])
        held = (await store.claim(samples.claim()))[0].delivery
        await store.save([Change(held, ended=(samples.attempt("d1", 1),))])
        gone = replace(
            samples.ended(replace(held, version=3)),
            ended=(samples.attempt("d1", 2),),
            facts=(samples.fact("sent"),),
            forget=True,
        )

        assert await store.save([gone]) == [True]

        assert await store.get("d1") is None
        assert await store.content("d1") is None
        assert await store.attempts("d1") == []
        assert await store.find(SOURCE, "order-1") == new.keys[0]
        assert [fact.key for fact in await store.facts("note")] == ["sent"]
        assert await store.count(Query()) == {(): 1}
        late = samples.claim(at_ms=NOW_MS + LEASE_MS)
        assert [c.delivery.id for c in await store.claim(late)] == ["d2"]
        assert await store.save([gone]) == [False]

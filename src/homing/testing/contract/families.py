"""Parents and children: one write makes them, and the parent counts the open ones."""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain.delivery import Change, Delivery, New
from homing.ports import Added, Existing, Query, Store
from homing.testing import samples
from homing.testing.contract.opening import Opened
from homing.testing.samples import LEASE_MS, NOW_MS, QUEUE, SOURCE

CHILD_QUEUE = "mail/notify"


def children_of(parent_id: str, *names: str) -> tuple[New, ...]:
    return tuple(samples.child(name, parent_id, queue=CHILD_QUEUE) for name in names)


async def fan_out(store: Store, *names: str) -> Delivery:
    """A parent `p` that waits for these children, as stored."""
    await store.add([samples.new("p")])
    (claimed,) = await store.claim(samples.claim("w1"))
    change = samples.waiting(claimed.delivery, children_of("p", *names), at_ms=NOW_MS + 1)
    assert await store.save([change]) == [True]
    return await stored(store, "p")


async def stored(store: Store, delivery_id: str) -> Delivery:
    delivery = await store.get(delivery_id)
    assert delivery is not None
    return delivery


class AddingFamilies(Opened):
    async def test_children_are_added_with_their_parent_and_counted(self, store: Store) -> None:
        children = children_of("p", "a", "b")
        parent = samples.new("p", state="waiting", due_at_ms=None, children=children)

        assert await store.add([parent]) == [Added("p")]

        assert await stored(store, "p") == replace(parent.delivery, open_children=2)
        assert await stored(store, "a") == children[0].delivery
        family = await store.page(Query(parent_id="p"))
        assert [d.id for d in family.items] == ["b", "a"]

    async def test_children_of_a_refused_parent_are_refused_with_it_i2(self, store: Store) -> None:
        await store.add([samples.keyed("d1", "same")])
        child = samples.keyed("a", "child", parent_id="p", facts=[samples.fact("of the child")])

        await store.add([samples.keyed("p", "same", children=[child])])

        assert await store.get("a") is None
        assert await store.find(SOURCE, "child") is None
        assert await store.facts("note") == []

    async def test_a_child_that_has_ended_is_not_open(self, store: Store) -> None:
        ended = samples.child("a", "p", state="suppressed", due_at_ms=None, ended_at_ms=NOW_MS)

        await store.add([samples.new("p", children=[ended, *children_of("p", "b")])])

        assert (await stored(store, "p")).open_children == 1

    async def test_a_taken_child_is_left_out_and_its_parent_stored(self, store: Store) -> None:
        await store.add([samples.keyed("d1", "same"), samples.new("d2")])
        children = [
            samples.keyed("a", "same", parent_id="p", facts=[samples.fact("of the child")]),
            samples.child("d2", "p", payload=b"other"),
            samples.child("c", "p"),
            samples.child("c", "p"),
            samples.child("p", "p"),
        ]

        assert await store.add([samples.new("p", children=children)]) == [Added("p")]

        assert (await stored(store, "p")).open_children == 1
        assert await store.get("a") is None
        assert (await stored(store, "d2")).parent_id is None
        assert await store.facts("note") == []

    async def test_grandchildren_belong_to_their_own_parent(self, store: Store) -> None:
        grandchildren = children_of("a", "a1", "a2", "a3")
        child = samples.child("a", "p", state="waiting", due_at_ms=None, children=grandchildren)

        await store.add([samples.new("p", children=[child])])

        assert (await stored(store, "p")).open_children == 1
        assert (await stored(store, "a")).open_children == 3
        assert await store.count(Query()) == {(): 5}

    async def test_the_count_is_the_stores_whatever_the_caller_says(self, store: Store) -> None:
        await store.add([samples.new("p", open_children=7, children=children_of("p", "a"))])

        assert (await stored(store, "p")).open_children == 1

    async def test_waiting_without_open_children_is_due(self, store: Store) -> None:
        lonely = samples.new("p", state="waiting", due_at_ms=None, updated_at_ms=NOW_MS - 3)
        await store.add([lonely])

        assert (await stored(store, "p")).due_at_ms == NOW_MS - 3
        (claimed,) = await store.claim(samples.claim(at_ms=NOW_MS - 3))
        assert claimed.delivery.state == "in_flight"


class FanningOut(Opened):
    async def test_one_save_makes_the_parent_wait_and_adds_its_children(self, store: Store) -> None:
        parent = await fan_out(store, "a", "b")

        assert (parent.state, parent.open_children, parent.due_at_ms) == ("waiting", 2, None)
        assert await store.claim(samples.claim(at_ms=NOW_MS + 9 * LEASE_MS)) == []
        assert await store.next_due_ms((QUEUE,)) is None
        taken = await store.claim(samples.claim(queues=(CHILD_QUEUE,)))
        assert [c.delivery.id for c in taken] == ["a", "b"]

    async def test_taken_children_are_left_out_and_not_counted(self, store: Store) -> None:
        """A fan-out repeated after a crash adds only what was missing."""
        await store.add([samples.keyed("x", "same"), *children_of("p", "a")])
        await store.add([samples.new("p", priority=1)])
        (claimed,) = await store.claim(samples.claim(limit=1))
        again = (
            *children_of("p", "a", "b"),
            samples.keyed("c", "same", parent_id="p", facts=[samples.fact("of the child")]),
        )

        await store.save([samples.waiting(claimed.delivery, again, at_ms=NOW_MS)])

        assert (await stored(store, "p")).open_children == 1
        assert await store.get("b") is not None
        assert await store.get("c") is None
        assert await store.facts("note") == []

    async def test_a_fan_out_into_nothing_is_due_at_once(self, store: Store) -> None:
        parent = await fan_out(store)

        assert (parent.open_children, parent.due_at_ms) == (0, NOW_MS + 1)

    async def test_children_come_with_their_keys_payload_and_facts(self, store: Store) -> None:
        await store.add([samples.new("p")])
        (claimed,) = await store.claim(samples.claim())
        child = samples.keyed(
            "a", "k", parent_id="p", payload=b"part", facts=[samples.fact("of the child")]
        )
        await store.save([samples.waiting(claimed.delivery, (child,), at_ms=NOW_MS)])

        assert await store.find(SOURCE, "k") == child.keys[0]
        content = await store.content("a")
        assert content is not None
        assert content.payload == b"part"
        assert await store.facts("note") == list(child.facts)
        assert await store.add([child]) == [Existing("a", child.keys[0])]

    async def test_the_callers_count_is_ignored(self, store: Store) -> None:
        parent = await fan_out(store, "a", "b")

        await store.save([Change(replace(parent, open_children=0))])

        after = await stored(store, "p")
        assert (after.open_children, after.due_at_ms) == (2, None)

    async def test_more_children_add_to_the_count(self, store: Store) -> None:
        parent = await fan_out(store, "a", "b")

        await store.save([Change(parent, children=children_of("p", "c"))])

        assert (await stored(store, "p")).open_children == 3

"""The order inside one write, and between the writes of one call (see `homing.domain.writes`)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from homing.domain.delivery import Change, Content, Delivery, New
from homing.ports import Added, Existing, Query, Store
from homing.testing import samples
from homing.testing.contract.families import children_of, fan_out, stored
from homing.testing.contract.opening import Opened
from homing.testing.contract.saving import one_claimed
from homing.testing.samples import NOW_MS, SOURCE

UNWRITABLE = "\ud800"
"""Half of a surrogate pair: a Python text that no encoding takes."""


def unwritable_news() -> list[New]:
    return [
        samples.new("bad", topic=UNWRITABLE),
        samples.new("bad", facts=[samples.fact("k", text=UNWRITABLE)]),
        samples.new("bad", children=[samples.child("c", "bad", topic=UNWRITABLE)]),
    ]


def unwritable_changes(before: Delivery) -> list[Change]:
    child = samples.child("c", before.id, topic=UNWRITABLE)
    return [
        Change(replace(before, topic=UNWRITABLE)),
        Change(before, ended=(samples.attempt(before.id, detail=UNWRITABLE),)),
        Change(before, facts=(samples.fact("k", text=UNWRITABLE),)),
        Change(before, children=(child,)),
    ]


class EncodingFirst(Opened):
    """Everything is encoded before anything is applied: a call that raises has written nothing."""

    @pytest.mark.parametrize("nth", range(3))
    async def test_an_add_that_cannot_be_written_writes_nothing(
        self, store: Store, nth: int
    ) -> None:
        good = samples.keyed("good", "k", facts=[samples.fact("of the good one")])

        raised = await _raises(store.add([good, unwritable_news()[nth]]))

        assert (await store.get("good") is None) is raised
        assert (await store.find(SOURCE, "k") is None) is raised
        assert (await store.get("bad") is None) is raised
        if raised:
            assert await store.facts("note") == []

    @pytest.mark.parametrize("nth", range(4))
    async def test_a_save_that_cannot_be_written_writes_nothing(
        self, store: Store, nth: int
    ) -> None:
        await store.add(samples.many(2))
        first, second = [c.delivery for c in await store.claim(samples.claim())]
        good = replace(samples.ended(first), facts=(samples.fact("of the good one"),))

        raised = await _raises(store.save([good, unwritable_changes(second)[nth]]))

        before, after = (first, second), (await store.get(first.id), await store.get(second.id))
        assert (before == after) is raised
        if raised:
            assert await store.attempts(second.id) == []
            assert await store.facts("note") == []


async def _raises(call: Any) -> bool:
    """A store that keeps texts as they are may take it; the others refuse it."""
    try:
        await call
    except Exception:
        return True
    return False


class JudgingInTurn(Opened):
    """Each write of a call is checked against what those before it have put."""

    async def test_a_taken_id_leaves_its_key_to_the_next(self, store: Store) -> None:
        await store.add([samples.new("d1")])

        answers = await store.add([samples.keyed("d1", "k"), samples.keyed("d2", "k")])

        assert answers == [Existing("d1"), Added("d2")]
        assert await store.find(SOURCE, "k") == samples.key("k", "d2")

    async def test_an_expired_key_goes_to_the_first_that_asks(self, store: Store) -> None:
        expired = samples.key("k", "d1", expires_at_ms=NOW_MS)
        await store.add([samples.new("d1", keys=[expired])])

        answers = await store.add([samples.keyed("d2", "k"), samples.keyed("d3", "k")])

        assert answers == [Added("d2"), Existing("d2", samples.key("k", "d2"))]
        assert await store.find(SOURCE, "k") == samples.key("k", "d2")

    async def test_one_delivery_may_name_a_key_twice(self, store: Store) -> None:
        key = samples.key("k", "d1")

        assert await store.add([samples.new("d1", keys=[key, key])]) == [Added("d1")]
        assert await store.find(SOURCE, "k") == key

    async def test_the_second_change_of_a_call_is_written_over_the_first(
        self, store: Store
    ) -> None:
        held = await one_claimed(store)
        first = Change(held, results={"send": b"1"})
        second = samples.ended(replace(held, version=held.version + 1))

        assert await store.save([first, second]) == [True, True]

        assert await store.get("d1") == replace(second.delivery, version=held.version + 2)
        assert await store.content("d1") == Content(b"hello", {"send": b"1"})

    async def test_a_child_added_in_a_call_may_be_changed_in_it(self, store: Store) -> None:
        held = await one_claimed(store, "p")
        child = samples.child("a", "p")
        waits = samples.waiting(held, [child], at_ms=NOW_MS + 1)

        assert await store.save([waits, samples.ended(child.delivery, at_ms=NOW_MS + 2)]) == [
            True,
            True,
        ]

        parent = await stored(store, "p")
        assert (parent.open_children, parent.due_at_ms) == (0, NOW_MS + 2)


class JudgingChildren(Opened):
    """Children are checked while the id and the keys of their parent are taken."""

    async def test_a_child_cannot_take_the_place_of_a_parent_that_is_removed(
        self, store: Store
    ) -> None:
        held = await one_claimed(store)
        namesake = samples.child("d1", "d1", payload=b"other")
        gone = replace(samples.ended(held), children=(namesake,), forget=True)

        assert await store.save([gone]) == [True]

        assert await store.get("d1") is None
        assert await store.content("d1") is None
        assert await store.count(Query()) == {(): 0}

    async def test_a_child_under_its_parents_new_key_is_left_out(self, store: Store) -> None:
        child = samples.keyed("a", "k", parent_id="p")

        assert await store.add([samples.keyed("p", "k", children=[child])]) == [Added("p")]

        assert await store.get("a") is None
        assert await store.find(SOURCE, "k") == samples.key("k", "p")
        assert (await stored(store, "p")).open_children == 0

    async def test_children_of_a_removed_parent_stay(self, store: Store) -> None:
        held = await one_claimed(store)
        gone = replace(samples.ended(held), children=children_of("d1", "a"), forget=True)

        await store.save([gone])

        assert (await stored(store, "a")).parent_id == "d1"
        assert await store.save([samples.ended(await stored(store, "a"))]) == [True]
        assert await store.get("d1") is None

    async def test_facts_of_a_parent_are_put_after_those_of_its_children(
        self, store: Store
    ) -> None:
        child = samples.child("a", "p", facts=[samples.fact("k", of="the child")])
        await store.add([samples.new("p", facts=[samples.fact("k", of="p")], children=[child])])

        assert await store.facts("note") == [samples.fact("k", of="p")]


class CountingBeside(Opened):
    """A parent saved in the same call as its ending child loses no count."""

    @pytest.mark.parametrize("parent_first", [True, False])
    async def test_a_parent_begins_to_wait_beside_its_ending_child(
        self,
        store: Store,
        parent_first: bool,  # noqa: FBT001 - a parameter of the case
    ) -> None:
        await store.add([samples.new("p", children=children_of("p", "a", "b"))])
        (held,) = await store.claim(samples.claim("w1"))
        waits = samples.waiting(held.delivery, children_of("p", "c"), at_ms=NOW_MS + 5)
        end = samples.ended(await stored(store, "a"), at_ms=NOW_MS + 5)
        call = [waits, end] if parent_first else [end, waits]

        assert await store.save(call) == [True, True]

        parent = await stored(store, "p")
        assert (parent.open_children, parent.due_at_ms) == (2, None)
        assert parent.version == held.delivery.version + 1

    @pytest.mark.parametrize("parent_first", [True, False])
    async def test_a_waiting_parent_is_saved_beside_its_last_child(
        self,
        store: Store,
        parent_first: bool,  # noqa: FBT001 - as above
    ) -> None:
        parent = await fan_out(store, "a")
        noted = Change(samples.changed(parent, at_ms=NOW_MS + 7, metadata={"note": "x"}))
        end = samples.ended(await stored(store, "a"), at_ms=NOW_MS + 7)
        call = [noted, end] if parent_first else [end, noted]

        assert await store.save(call) == [True, True]

        after = await stored(store, "p")
        assert (after.open_children, after.due_at_ms) == (0, NOW_MS + 7)
        assert after.metadata == {"note": "x"}
        assert [c.delivery.id for c in await store.claim(samples.claim(at_ms=NOW_MS + 7))] == ["p"]

    async def test_a_parent_that_ends_beside_its_child_is_not_made_due(self, store: Store) -> None:
        parent = await fan_out(store, "a")
        ends = [samples.ended(parent), samples.ended(await stored(store, "a"))]

        assert await store.save(ends) == [True, True]

        after = await stored(store, "p")
        assert (after.state, after.open_children, after.due_at_ms) == ("delivered", 0, None)

    async def test_a_parent_may_be_removed_beside_its_ending_child(self, store: Store) -> None:
        parent = await fan_out(store, "a")
        gone = replace(samples.ended(parent), forget=True)

        assert await store.save([gone, samples.ended(await stored(store, "a"))]) == [True, True]

        assert await store.get("p") is None
        assert (await stored(store, "a")).state == "delivered"

    async def test_a_lost_parent_does_not_take_its_child_with_it(self, store: Store) -> None:
        parent = await fan_out(store, "a")
        lost = Change(replace(parent, version=99), children=children_of("p", "b"))

        assert await store.save([lost, samples.ended(await stored(store, "a"))]) == [False, True]

        assert await store.get("b") is None
        assert (await stored(store, "p")).open_children == 0


class ContentWithItsRecord(Opened):
    """A reader of a record sees the content that was written with it."""

    async def test_the_old_payload_is_kept_before_the_new_one_is_put(self, store: Store) -> None:
        held = await one_claimed(store, payload=b"one")
        await store.save([Change(held, results={"send": b"frozen"})])
        amended = samples.changed(
            held, version=3, payload_no=2, state="pending", holder=None, due_at_ms=NOW_MS
        )
        results = {"send": b"again"}

        await store.save([Change(amended, payload=b"two", drop_results=True, results=results)])

        (claimed,) = await store.claim(samples.claim("w2"))
        assert claimed.content == Content(b"two", {"payload.1": b"one", "send": b"again"})

    async def test_results_given_at_the_add_are_claimed_with_it(self, store: Store) -> None:
        """A clone sends what its original sent: the rendered text comes with it."""
        new = replace(samples.new("d1"), results={"render": b"\x00text\xff", "odd name": b""})
        child = replace(samples.child("a", "p"), results={"render": b"of the child"})
        await store.add([new, samples.new("p", due_at_ms=None, children=[child])])

        assert await store.content("d1") == Content(b"hello", new.results)
        claimed = {c.delivery.id: c.content for c in await store.claim(samples.claim())}
        assert claimed == {
            "d1": Content(b"hello", new.results),
            "a": Content(b"hello", child.results),
        }

    async def test_results_of_a_refused_add_are_not_kept(self, store: Store) -> None:
        await store.add([samples.keyed("d1", "k")])
        refused = replace(samples.keyed("d1", "k"), results={"render": b"x"})

        await store.add([refused, replace(samples.new("d1"), results={"render": b"x"})])

        assert await store.content("d1") == Content(b"hello", {})

    async def test_results_given_at_the_add_are_dropped_like_others(self, store: Store) -> None:
        await store.add([replace(samples.new("d1"), results={"render": b"x", "payload.0": b"y"})])

        await store.save([Change(samples.delivery("d1"), drop_results=True)])

        assert await store.content("d1") == Content(b"hello", {"payload.0": b"y"})

"""Children that end: each is counted once, and the last makes its parent due."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from homing.domain.delivery import State
from homing.ports import Store
from homing.testing import samples
from homing.testing.contract.families import children_of, fan_out, stored
from homing.testing.contract.opening import Opened
from homing.testing.samples import LEASE_MS, NOW_MS


class Closing(Opened):
    async def test_the_last_child_makes_its_parent_due_then(self, store: Store) -> None:
        parent = await fan_out(store, "a", "b")
        a, b = await stored(store, "a"), await stored(store, "b")

        await store.save([samples.ended(a, at_ms=NOW_MS + 50)])
        assert await stored(store, "p") == replace(parent, open_children=1)
        await store.save([samples.ended(b, "failed", at_ms=NOW_MS + 60)])

        due = replace(parent, open_children=0, due_at_ms=NOW_MS + 60)
        assert await stored(store, "p") == due
        assert await store.claim(samples.claim(at_ms=NOW_MS + 59)) == []
        (claimed,) = await store.claim(samples.claim(at_ms=NOW_MS + 60))
        assert (claimed.delivery.id, claimed.delivery.state) == ("p", "in_flight")

    async def test_all_children_may_end_in_one_call(self, store: Store) -> None:
        await fan_out(store, "a", "b", "c")
        ends = [samples.ended(await stored(store, name), at_ms=NOW_MS + 5) for name in "abc"]

        assert await store.save(ends) == [True, True, True]

        parent = await stored(store, "p")
        assert (parent.open_children, parent.due_at_ms) == (0, NOW_MS + 5)

    async def test_a_child_that_is_forgotten_has_ended_too(self, store: Store) -> None:
        await fan_out(store, "a")
        gone = replace(samples.ended(await stored(store, "a"), at_ms=NOW_MS + 5), forget=True)

        await store.save([gone])

        assert await store.get("a") is None
        parent = await stored(store, "p")
        assert (parent.open_children, parent.due_at_ms) == (0, NOW_MS + 5)

    async def test_an_end_that_was_lost_is_not_counted(self, store: Store) -> None:
        parent = await fan_out(store, "a", "b")
        end = samples.ended(await stored(store, "a"))

        assert await store.save([end, end]) == [True, False]
        assert await store.save([end]) == [False]

        assert await stored(store, "p") == replace(parent, open_children=1)

    async def test_a_parent_in_hand_keeps_its_lease_and_version(self, store: Store) -> None:
        await store.add([samples.new("p", children=children_of("p", "a"))])
        (held,) = await store.claim(samples.claim("w1"))

        await store.save([samples.ended(await stored(store, "a"), at_ms=NOW_MS + 5)])

        assert await stored(store, "p") == replace(held.delivery, open_children=0)
        waits = samples.waiting(held.delivery, at_ms=NOW_MS + 9)
        assert await store.save([waits]) == [True]
        assert (await stored(store, "p")).due_at_ms == NOW_MS + 9

    async def test_parent_and_child_may_be_saved_together(self, store: Store) -> None:
        await store.add([samples.new("p", children=children_of("p", "a"))])
        (held,) = await store.claim(samples.claim("w1"))
        waits = samples.waiting(held.delivery, at_ms=NOW_MS + 5)
        end = samples.ended(await stored(store, "a"), at_ms=NOW_MS + 5)

        assert await store.save([end, waits]) == [True, True]

        parent = await stored(store, "p")
        assert (parent.state, parent.open_children) == ("waiting", 0)
        assert parent.due_at_ms == NOW_MS + 5

    async def test_a_child_opened_again_makes_its_parent_wait_again(self, store: Store) -> None:
        parent = await fan_out(store, "a")
        cancelled = samples.ended(await stored(store, "a"), "dismissed", at_ms=NOW_MS + 5)
        await store.save([cancelled])
        restored = samples.reopened(await stored(store, "a"), at_ms=NOW_MS + 6)

        await store.save([restored])

        assert await stored(store, "p") == parent
        assert await store.claim(samples.claim(at_ms=NOW_MS + LEASE_MS)) == []

    @pytest.mark.parametrize("state", ["pending", "failed", "dismissed"])
    async def test_only_a_waiting_parent_is_made_due(self, store: Store, state: State) -> None:
        family = samples.new(
            "p", state=state, due_at_ms=NOW_MS + 77, children=children_of("p", "a")
        )
        await store.add([family])

        await store.save([samples.ended(await stored(store, "a"))])

        assert await stored(store, "p") == family.delivery

    async def test_the_count_never_falls_below_none(self, store: Store) -> None:
        await fan_out(store, "a")
        a = await stored(store, "a")

        await store.save([replace(samples.ended(a), child_delta=-5)])

        assert (await stored(store, "p")).open_children == 0

    async def test_a_child_may_outlive_its_parents_record(self, store: Store) -> None:
        await store.add([samples.child("orphan", "gone")])

        end = samples.ended(await stored(store, "orphan"))

        assert await store.save([end]) == [True]
        assert await store.get("gone") is None

    async def test_two_handles_end_the_last_two_children_at_once(
        self, store: Store, other: Store
    ) -> None:
        for number in range(10):
            parent_id, names = f"p{number}", (f"a{number}", f"b{number}")
            children = children_of(parent_id, *names)
            await store.add([samples.new(parent_id, state="waiting", children=children)])
            a, b = [await stored(store, name) for name in names]

            saved = tuple(
                await asyncio.gather(
                    store.save([samples.ended(a, at_ms=NOW_MS + 5)]),
                    other.save([samples.ended(b, at_ms=NOW_MS + 5)]),
                )
            )

            assert saved == ([True], [True])
            parent = await stored(store, parent_id)
            assert (parent.open_children, parent.due_at_ms) == (0, NOW_MS + 5)

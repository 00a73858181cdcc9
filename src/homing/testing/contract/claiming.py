"""Claiming: what is due, of the worker's queues, in order; leases, and who may end them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import TERMINAL_STATES, Change, Content, State
from homing.ports import Claim, Claimed, Store
from homing.testing import samples
from homing.testing.contract.opening import Opened
from homing.testing.samples import LEASE_MS, NOW_MS


async def claimed_ids(store: Store, claim: Claim) -> list[str]:
    return [claimed.delivery.id for claimed in await store.claim(claim)]


class Claiming(Opened):
    async def test_a_claim_is_the_one_transition_a_store_makes(self, store: Store) -> None:
        new = samples.new("d1", payload=b"body")
        await store.add([new])

        claimed = await store.claim(samples.claim("w1"))

        expected = transitions.claim(
            new.delivery, holder="w1", now_ms=NOW_MS, lease_until_ms=NOW_MS + LEASE_MS
        ).delivery
        assert claimed == [Claimed(expected, Content(b"body", {}))]
        assert await store.get("d1") == expected

    async def test_the_claim_brings_kept_results(self, store: Store) -> None:
        await store.add([samples.new("d1", payload=b"template")])
        (first,) = await store.claim(samples.claim())
        back = samples.changed(first.delivery, state="pending", holder=None, due_at_ms=NOW_MS)
        await store.save([Change(back, results={"render": b"text", "fetch": b""})])

        (second,) = await store.claim(samples.claim())

        assert second.content == Content(b"template", {"render": b"text", "fetch": b""})

    async def test_what_is_claimed_is_not_claimed_again(self, store: Store) -> None:
        await store.add(samples.many(3))

        assert await claimed_ids(store, samples.claim("w1", limit=2)) == ["d00000", "d00001"]
        assert await claimed_ids(store, samples.claim("w2", limit=2)) == ["d00002"]
        assert await claimed_ids(store, samples.claim("w2")) == []

    async def test_not_yet_due_is_left(self, store: Store) -> None:
        await store.add(
            [
                samples.new("now", due_at_ms=NOW_MS),
                samples.new("soon", due_at_ms=NOW_MS + 1),
                samples.new("never", due_at_ms=None),
            ]
        )

        assert await claimed_ids(store, samples.claim(at_ms=NOW_MS - 1)) == []
        assert await claimed_ids(store, samples.claim(at_ms=NOW_MS)) == ["now"]
        assert await claimed_ids(store, samples.claim(at_ms=NOW_MS + 1)) == ["soon"]

    async def test_priority_then_due_time_then_id(self, store: Store) -> None:
        await store.add(
            [
                samples.new("e", priority=4, due_at_ms=NOW_MS - 9000),
                samples.new("d", priority=2, due_at_ms=NOW_MS),
                samples.new("b", priority=2, due_at_ms=NOW_MS - 5),
                samples.new("c", priority=2, due_at_ms=NOW_MS - 5),
                samples.new("a", priority=1, due_at_ms=NOW_MS),
            ]
        )

        assert await claimed_ids(store, samples.claim(limit=3)) == ["a", "b", "c"]
        assert await claimed_ids(store, samples.claim()) == ["d", "e"]

    async def test_the_order_holds_across_queues(self, store: Store) -> None:
        await store.add(
            [
                samples.new("c", queue="x", due_at_ms=NOW_MS - 1),
                samples.new("b", queue="y", due_at_ms=NOW_MS - 2),
                samples.new("d", queue="y", due_at_ms=NOW_MS),
                samples.new("a", queue="x", due_at_ms=NOW_MS, priority=1),
            ]
        )

        assert await claimed_ids(store, samples.claim(queues=("x", "y"))) == ["a", "b", "c", "d"]

    async def test_the_order_holds_across_very_many_queues(self, store: Store) -> None:
        queues = [f"queue {number:03}" for number in range(150)]
        due_ms = [NOW_MS - (number * 37) % 150 for number in range(150)]
        await store.add(
            [
                samples.new(f"d{number:03}", queue=queue, due_at_ms=due_ms[number])
                for number, queue in enumerate(queues)
            ]
        )

        first = sorted((due_ms[number], f"d{number:03}") for number in range(150))[:60]
        claim = samples.claim(queues=tuple(queues), limit=60)
        assert await claimed_ids(store, claim) == [delivery_id for _, delivery_id in first]

    async def test_payloads_come_back_byte_for_byte(self, store: Store) -> None:
        payloads = (
            b"",
            b"\x00",
            b"\xff\x00,\xfe",
            bytes(range(256)),
            b"\xef\xbb\xbfx",
            b"]" * 70_000,
        )
        await store.add(
            [samples.new(f"d{number}", payload=data) for number, data in enumerate(payloads)]
        )

        claimed = await store.claim(samples.claim())

        assert tuple(one.content.payload for one in claimed) == payloads

    async def test_only_the_queues_asked_for(self, store: Store) -> None:
        await store.add([samples.new(queue, queue=queue) for queue in ("x", "y", "xy", "X")])

        assert await claimed_ids(store, samples.claim(queues=())) == []
        assert await claimed_ids(store, samples.claim(queues=("z",))) == []
        assert await claimed_ids(store, samples.claim(queues=("x", "x"))) == ["x"]
        assert await claimed_ids(store, samples.claim(queues=("xy", "y"))) == ["xy", "y"]

    async def test_a_limit_of_none_takes_none(self, store: Store) -> None:
        await store.add(samples.many(1))

        assert await store.claim(samples.claim(limit=0)) == []

    async def test_payloads_are_bounded_together_but_the_first_is_always_given(
        self, store: Store
    ) -> None:
        sizes = {"a": 5, "b": 3, "c": 90, "d": 2, "e": 0}
        await store.add([samples.new(name, payload=b"x" * size) for name, size in sizes.items()])

        assert await claimed_ids(store, samples.claim(limit_bytes=8)) == ["a", "b"]
        assert await claimed_ids(store, samples.claim(limit_bytes=0)) == ["c"]
        assert await claimed_ids(store, samples.claim(limit_bytes=1)) == ["d"]
        await store.add([samples.new("f", payload=b"x"), samples.new("g", priority=1)])
        assert await claimed_ids(store, samples.claim(limit_bytes=5)) == ["g", "e"]
        assert await claimed_ids(store, samples.claim(limit_bytes=5, limit=0)) == []
        assert await claimed_ids(store, samples.claim(limit_bytes=None)) == ["f"]

    @pytest.mark.parametrize("state", sorted(TERMINAL_STATES))
    async def test_what_has_ended_is_never_claimed_i6(self, store: Store, state: State) -> None:
        await store.add([samples.new("d1", state=state, ended_at_ms=NOW_MS, due_at_ms=NOW_MS)])

        assert await store.claim(samples.claim()) == []
        assert await store.next_due_ms((samples.QUEUE,)) is None

    async def test_an_ended_lease_is_due_again_and_counted(self, store: Store) -> None:
        await store.add(samples.many(1))
        (first,) = await store.claim(samples.claim("w1"))

        assert await store.claim(samples.claim("w2", at_ms=NOW_MS + LEASE_MS - 1)) == []
        (second,) = await store.claim(samples.claim("w2", at_ms=NOW_MS + LEASE_MS))

        assert (first.delivery.unsettled_claims, second.delivery.unsettled_claims) == (1, 2)
        assert second.delivery.holder == "w2"
        assert second.delivery.version == first.delivery.version + 1

    async def test_live_holders_keep_an_ended_lease_i15(self, store: Store) -> None:
        await store.add(samples.many(4))
        await store.claim(samples.claim("alive", limit=1))
        await store.claim(samples.claim("dead", limit=1))
        late_ms = NOW_MS + LEASE_MS
        alive = frozenset({"alive", "also alive"})

        taken = await store.claim(samples.claim("w3", at_ms=late_ms, alive_holders=alive, limit=2))

        # The pending ones and the dead one's lease are taken. The live one's lease costs no place.
        assert [c.delivery.id for c in taken] == ["d00002", "d00003"]
        again = samples.claim("w3", at_ms=late_ms, alive_holders=alive | {"w3"})
        assert await claimed_ids(store, again) == ["d00001"]
        assert await claimed_ids(store, again) == []
        assert await claimed_ids(store, samples.claim("w4", at_ms=late_ms)) == ["d00000"]

    async def test_a_lease_that_was_ended_has_no_holder_and_is_taken_i14(
        self, store: Store
    ) -> None:
        await store.add(samples.many(1))
        (held,) = await store.claim(samples.claim("dead"))
        assert await store.save([transitions.end_lease(held.delivery, now_ms=NOW_MS)]) == [True]

        taken = await store.claim(samples.claim("w2", alive_holders=frozenset({"w2", "alive"})))

        assert [(c.delivery.holder, c.delivery.unsettled_claims) for c in taken] == [("w2", 2)]

    async def test_alive_holders_protect_leases_not_what_is_pending(self, store: Store) -> None:
        await store.add([samples.new("d1", holder="alive")])

        assert await claimed_ids(store, samples.claim(alive_holders=frozenset({"alive"}))) == ["d1"]

    async def test_a_lease_that_ends_at_once_is_claimed_once_per_call(self, store: Store) -> None:
        await store.add(samples.many(2))

        taken = await claimed_ids(store, samples.claim(lease_until_ms=NOW_MS, limit=10))

        assert taken == ["d00000", "d00001"]
        assert await claimed_ids(store, samples.claim("w2")) == ["d00000", "d00001"]


class Renewing(Opened):
    async def test_a_renewed_lease_lasts_longer_and_changes_nothing_else(
        self, store: Store
    ) -> None:
        await store.add(samples.many(1))
        (held,) = await store.claim(samples.claim("w1"))
        later_ms = NOW_MS + 2 * LEASE_MS

        renewed = await store.renew("w1", [("d00000", held.delivery.version)], later_ms)

        assert renewed == [True]
        assert await store.get("d00000") == replace(held.delivery, due_at_ms=later_ms)
        assert await store.claim(samples.claim("w2", at_ms=later_ms - 1)) == []
        assert await claimed_ids(store, samples.claim("w2", at_ms=later_ms)) == ["d00000"]

    async def test_only_the_holder_renews_only_what_it_holds_i11(self, store: Store) -> None:
        await store.add(samples.many(3))
        held = [c.delivery for c in await store.claim(samples.claim("w1", limit=2))]
        await store.save([samples.ended(held[1])])
        ask = [
            (held[0].id, held[0].version),
            (held[0].id, held[0].version - 1),
            (held[1].id, held[1].version),
            (held[1].id, held[1].version + 1),
            ("d00002", 1),
            ("unknown", 1),
        ]

        assert await store.renew("w1", ask, NOW_MS + 1) == [True, *[False] * 5]
        assert await store.renew("w2", ask, NOW_MS + 2) == [False] * 6
        assert await store.renew("w1", [], NOW_MS + 3) == []
        stored = await store.get(held[0].id)
        assert stored is not None
        assert stored.due_at_ms == NOW_MS + 1

    async def test_what_is_not_in_flight_has_no_lease_to_renew(self, store: Store) -> None:
        new = samples.new("d1", state="pending", holder="w1")
        await store.add([new])

        assert await store.renew("w1", [("d1", 1)], NOW_MS + 9) == [False]
        assert await store.get("d1") == new.delivery

    async def test_a_lease_lost_to_another_is_not_renewed(self, store: Store) -> None:
        await store.add(samples.many(1))
        (lost,) = await store.claim(samples.claim("w1"))
        (taken,) = await store.claim(samples.claim("w2", at_ms=NOW_MS + LEASE_MS))

        ask = [("d00000", lost.delivery.version), ("d00000", taken.delivery.version)]

        assert await store.renew("w1", ask, NOW_MS + 9 * LEASE_MS) == [False, False]
        assert await store.get("d00000") == taken.delivery

"""Purging: only what the rule names, never what is open, and no more than the limit.

Invariants: one intent per key (I3), conservation (I5).
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from homing.domain.delivery import TERMINAL_STATES, State
from homing.ports import Existing, PurgeKind, PurgeRule, Query, Store
from homing.testing import samples
from homing.testing.contract.opening import Opened
from homing.testing.samples import NOW_MS, QUEUE, SOURCE

EVERY_STATE: tuple[State, ...] = (
    "pending",
    "in_flight",
    "waiting",
    "delivered",
    "suppressed",
    "failed",
    "dismissed",
)
LATER_MS = NOW_MS + 1


def rule(what: PurgeKind, before_ms: int = LATER_MS, **fields: Any) -> PurgeRule:
    return PurgeRule(what=what, before_ms=before_ms, **fields)


async def left(store: Store) -> list[str]:
    return sorted(d.id for d in (await store.page(Query(), limit=1000)).items)


async def add_ended(store: Store, *names: str, **fields: Any) -> None:
    values: dict[str, Any] = {"state": "delivered", "due_at_ms": None, "ended_at_ms": NOW_MS}
    await store.add([samples.new(name, **(values | fields)) for name in names])


class PurgingDeliveries(Opened):
    async def test_what_is_open_stays_whatever_the_rule_says_i5(self, store: Store) -> None:
        for state in EVERY_STATE:
            # Even with the time of an end, which an open one should not have.
            await add_ended(store, state, state=state)

        assert await store.purge(rule("delivery", states=EVERY_STATE)) == 4

        assert await left(store) == ["in_flight", "pending", "waiting"]

    async def test_a_dead_letter_goes_only_by_name(self, store: Store) -> None:
        for state in EVERY_STATE:
            await add_ended(store, state, state=state)

        assert await store.purge(rule("delivery")) == 3
        assert await left(store) == ["failed", "in_flight", "pending", "waiting"]
        assert await store.purge(rule("delivery", states=("failed",))) == 1
        assert await left(store) == ["in_flight", "pending", "waiting"]

    async def test_only_the_states_named(self, store: Store) -> None:
        for state in TERMINAL_STATES:
            await add_ended(store, state, state=state)

        assert await store.purge(rule("delivery", states=("suppressed",))) == 1

        assert await left(store) == ["delivered", "dismissed", "failed"]

    async def test_only_what_ended_before(self, store: Store) -> None:
        await add_ended(store, "at", ended_at_ms=NOW_MS)
        await add_ended(store, "before", ended_at_ms=NOW_MS - 1)
        await add_ended(store, "unknown", ended_at_ms=None)

        assert await store.purge(rule("delivery", NOW_MS)) == 1

        assert await left(store) == ["at", "unknown"]

    async def test_only_the_route_named(self, store: Store) -> None:
        await add_ended(store, "a", route="mail")
        await add_ended(store, "b", route="jobs")

        assert await store.purge(rule("delivery", route="jobs")) == 1
        assert await left(store) == ["a"]
        assert await store.purge(rule("delivery", route=None)) == 1

    async def test_no_more_than_the_limit(self, store: Store) -> None:
        await add_ended(store, *(f"d{number}" for number in range(5)))

        assert await store.purge(rule("delivery", limit=2)) == 2
        assert len(await left(store)) == 3
        assert await store.purge(rule("delivery", limit=3)) == 3
        assert await store.purge(rule("delivery", limit=3)) == 0

    async def test_content_goes_with_it_but_key_and_attempts_stay_i3(self, store: Store) -> None:
        await store.add([samples.keyed("d1", "order-1")])
        (held,) = await store.claim(samples.claim())
        end = replace(samples.ended(held.delivery), ended=(samples.attempt("d1"),))
        await store.save([end])

        assert await store.purge(rule("delivery", states=("delivered",))) == 1

        assert await store.get("d1") is None
        assert await store.content("d1") is None
        assert await store.attempts("d1") == [samples.attempt("d1")]
        assert await store.find(SOURCE, "order-1") == samples.key("order-1", "d1")
        (answer,) = await store.add([samples.keyed("d2", "order-1")])
        assert answer == Existing("d1", samples.key("order-1", "d1"))
        assert await store.save([end]) == [False]

    @pytest.mark.parametrize("state", ["pending", "waiting", "failed", "delivered"])
    async def test_a_child_stays_as_long_as_its_parents_record(
        self, store: Store, state: State
    ) -> None:
        """A replayed parent must find what was done already, or it would do it again."""
        await store.add([samples.new("p", state=state, due_at_ms=None, ended_at_ms=NOW_MS)])
        await add_ended(store, "child", parent_id="p")
        await add_ended(store, "orphan", parent_id="gone")

        assert await store.purge(rule("delivery", route="other")) == 0
        assert await store.purge(rule("delivery", NOW_MS)) == 0
        purged = await store.purge(rule("delivery", states=("delivered",)))

        if state == "delivered":
            assert (purged, await left(store)) == (2, ["child"])
            assert await store.purge(rule("delivery")) == 1
        else:
            assert (purged, await left(store)) == (1, ["child", "p"])

    async def test_what_is_purged_is_no_longer_due_counted_or_listed(self, store: Store) -> None:
        await add_ended(store, "d1", notices_due=("alert",), holder="w1", recipients=())

        await store.purge(rule("delivery"))

        assert await store.next_due_ms((QUEUE,)) is None
        for query in (Query(), Query(notices_due=True), Query(holder="w1"), Query(route="mail")):
            assert await store.count(query) == {(): 0}


class PurgingAttempts(Opened):
    @pytest.mark.parametrize("state", EVERY_STATE)
    async def test_attempts_of_what_is_open_stay_i5(self, store: Store, state: State) -> None:
        """They say what was tried, and whether it may have been sent."""
        await store.add([samples.new("d1")])
        (held,) = await store.claim(samples.claim())
        change = samples.ended(held.delivery, state)
        change = replace(change, ended=(samples.attempt("d1"),))
        assert await store.save([change]) == [True]

        purged = await store.purge(rule("attempts"))

        is_open = state not in TERMINAL_STATES
        assert purged == (0 if is_open else 1)
        assert await store.attempts("d1") == ([samples.attempt("d1")] if is_open else [])

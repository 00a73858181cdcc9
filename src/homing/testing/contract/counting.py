"""Counts, by every group and by several."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from msgspec.structs import replace

from homing.domain.delivery import Change, Delivery, FailedBecause, State
from homing.domain.failure import Failure
from homing.ports import Facet, GroupBy, PurgeRule, Query, Store
from homing.testing import samples
from homing.testing.contract.opening import Opened
from homing.testing.contract.population import GROUPS, expected, population
from homing.testing.samples import NOW_MS, QUEUE


class Counting(Opened):
    @pytest.mark.parametrize("by", GROUPS)
    async def test_counts_by_each_group(self, store: Store, by: GroupBy) -> None:
        lot = population()
        await store.add(lot)
        for conditions in ({}, {"route": "mail"}, {"notices_due": True, "topic": "a%"}):
            counted = await store.count(Query(**conditions), by=(by,))

            assert counted == Counter((GROUPS[by](d),) for d in expected(lot, conditions))

    async def test_counts_by_several_groups(self, store: Store) -> None:
        lot = population()
        await store.add(lot)
        for by in itertools.permutations(GROUPS, 2):
            counted = await store.count(Query(), by=by)

            assert counted == Counter(
                tuple(GROUPS[name](new.delivery) for name in by) for new in lot
            )
        everything = tuple(GROUPS)
        assert await store.count(Query(), by=everything) == Counter(
            tuple(group(new.delivery) for group in GROUPS.values()) for new in lot
        )

    async def test_a_count_without_groups_is_one_number(self, store: Store) -> None:
        assert await store.count(Query()) == {(): 0}
        assert await store.count(Query(), by=("state",)) == {}

        await store.add(samples.many(3))

        assert await store.count(Query()) == {(): 3}
        assert await store.count(Query(route="other")) == {(): 0}

    async def test_counts_follow_every_change(self, store: Store) -> None:
        """By route, queue and state, which a store may keep as numbers of their own."""

        async def counted() -> dict[tuple[str, ...], int]:
            return await store.count(Query(), by=("state",))

        await store.add(samples.many(5))
        held = await store.claim(samples.claim(limit=3))
        assert await counted() == {("pending",): 2, ("in_flight",): 3}
        held += await store.claim(samples.claim(limit=2))
        assert await store.count(_in_state("pending"), by=("queue",)) == {}

        first, second, third, *rest = (claimed.delivery for claimed in held)
        parent = replace(first, state="waiting", holder=None, due_at_ms=None)
        moved = replace(third, state="pending", holder=None, queue=f"{QUEUE}/slow")
        changes = [Change(parent), samples.ended(second), Change(moved)]
        changes += [samples.retry(each, due_at_ms=NOW_MS) for each in rest]
        assert await store.save(changes) == [True] * 5

        assert await counted() == {("pending",): 3, ("waiting",): 1, ("delivered",): 1}
        assert await store.count(_in_state("pending"), by=("queue",)) == {
            (QUEUE,): 2,
            (f"{QUEUE}/slow",): 1,
        }
        assert await store.count(_in_state("in_flight"), by=("queue",)) == {}
        assert await store.save([samples.ended(second)]) == [False]
        assert await store.purge(PurgeRule(what="delivery", before_ms=NOW_MS + 1)) == 1
        assert await counted() == {("pending",): 3, ("waiting",): 1}
        assert await store.count(Query()) == {(): 4}

    async def test_dead_letters_are_counted_by_their_kind_after_every_change(
        self, store: Store
    ) -> None:
        """By error class and reason, which a store may keep as numbers of their own."""

        async def counted(query: Query) -> dict[tuple[str, ...], int]:
            return await store.count(query, by=("route", "error_class", "failed_because"))

        await store.add(samples.many(5))
        held = [each.delivery for each in await store.claim(samples.claim(limit=5))]
        dead = [_dead(each, "timed_out", "exhausted") for each in held[:3]]
        dead += [_dead(held[3], "refused", "rejected"), _dead(held[4], "refused", "uncertain")]
        assert await store.save(dead) == [True] * 5
        route = held[0].route
        assert await counted(_in_state("failed")) == {
            (route, "timed_out", "exhausted"): 3,
            (route, "refused", "rejected"): 1,
            (route, "refused", "uncertain"): 1,
        }
        uncertain = (Facet(state="failed", failed_because="uncertain"),)
        assert await store.count(Query(facets=uncertain)) == {(): 1}
        of_class = replace(_in_state("failed"), error_class="refused")
        assert await store.count(of_class) == {(): 2}
        assert await store.count(replace(of_class, route="other")) == {(): 0}

        first, second, third, fourth, _ = [await store.get(each.id) for each in held]
        assert first is not None
        assert second is not None
        assert third is not None
        assert fourth is not None
        changes = [
            samples.reopened(first),
            Change(replace(second, state="dismissed")),
            # Still failed, but otherwise.
            Change(replace(fourth, failed_because="uncertain", failure=Failure("lost"))),
        ]
        assert await store.save(changes) == [True] * 3
        assert await counted(_in_state("failed")) == {
            (route, "timed_out", "exhausted"): 1,
            (route, "lost", "uncertain"): 1,
            (route, "refused", "uncertain"): 1,
        }
        rule = PurgeRule(what="delivery", before_ms=NOW_MS + 1, states=("failed",))
        assert await store.purge(rule) == 3
        assert await counted(_in_state("failed")) == {}
        assert await store.count(_in_state("failed")) == {(): 0}

    async def test_the_empty_word_is_no_error_class(self, store: Store) -> None:
        """It stands for none in the words of a count, and so must not find those."""
        expired = samples.new("d1", state="failed", failed_because="expired", ended_at_ms=NOW_MS)
        await store.add([expired])
        assert await store.count(_in_state("failed"), by=("error_class",)) == {("",): 1}
        empty = replace(_in_state("failed"), error_class="")
        assert await store.count(empty) == {(): 0}
        assert (await store.page(empty)).items == ()


def _dead(before: Delivery, error_class: str, because: FailedBecause) -> Change:
    after = samples.ended(before, "failed")
    failed = replace(after.delivery, failed_because=because, failure=Failure(error_class))
    return replace(after, delivery=failed)


def _in_state(state: State) -> Query:
    return Query(facets=(Facet(state=state),))

"""Counts, by every group and by several."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from homing.ports import GroupBy, Query, Store
from homing.testing import samples
from homing.testing.contract.opening import Opened
from homing.testing.contract.population import GROUPS, expected, population


class Counting(Opened):
    @pytest.mark.parametrize("by", GROUPS)
    async def test_counts_by_each_group(self, store: Store, by: GroupBy) -> None:
        lot = population()
        await store.add(lot)
        for conditions in ({}, {"route": "mail"}, {"owing": True, "topic": "a%"}):
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

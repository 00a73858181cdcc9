"""Listings and counts that end where they would read very much."""

from __future__ import annotations

import pytest

from homing.domain.delivery import State
from homing.ports import BoundedReads, Cursor, Facet, GroupBy, Query, Store
from homing.testing import samples
from homing.testing.contract.opening import Opened
from homing.testing.contract.population import CONDITIONS, expected, population
from homing.testing.samples import NOW_MS

LIMIT = 4


async def walked(reads: BoundedReads, query: Query, look_at: int) -> list[str]:
    """The ids of all pages, to the end, and back again to the beginning."""
    older: list[str] = []
    cursor: Cursor | None = None
    last: Cursor | None = None
    while not older or cursor is not None:
        page = await reads.page_within(query, cursor, LIMIT, look_at)
        assert len(page.items) <= LIMIT
        older += [each.id for each in page.items]
        last, cursor = cursor, page.next
        if cursor is None:
            break
    newer: list[str] = []
    back = None if last is None else Cursor(last.created_at_ms, last.delivery_id, newer=True)
    while back is not None:
        page = await reads.page_within(query, back, LIMIT, look_at)
        newer = [each.id for each in page.items] + newer
        back = page.previous
    assert newer == older[: len(newer)]
    return older


class Bounding(Opened):
    @pytest.fixture
    def reads(self, store: Store) -> BoundedReads:
        assert isinstance(store, BoundedReads)
        return store

    @pytest.mark.parametrize("look_at", [1, 7, 1000])
    @pytest.mark.parametrize("name", CONDITIONS)
    async def test_short_pages_lead_on_to_all_that_match(
        self, store: Store, reads: BoundedReads, name: str, look_at: int
    ) -> None:
        lot = population(40)
        await store.add(lot)
        for value in CONDITIONS[name][0]:
            found = expected(lot, {name: value})

            walk = await walked(reads, Query(**{name: value}), look_at)

            assert walk == [each.id for each in found], value

    async def test_a_page_ends_where_enough_was_looked_at(
        self, store: Store, reads: BoundedReads
    ) -> None:
        rare = samples.new("rare", source="rare", created_at_ms=NOW_MS - 1)
        await store.add([*samples.many(20, created_at_ms=NOW_MS), rare])
        page = await reads.page_within(Query(source="rare"), None, LIMIT, 5)
        assert page.items == ()
        assert page.next is not None
        page = await reads.page_within(Query(source="rare"), None, LIMIT, 50)
        assert [each.id for each in page.items] == ["rare"]
        assert page.next is None

    async def test_a_state_that_few_have_is_found_at_once(
        self, store: Store, reads: BoundedReads
    ) -> None:
        old = [samples.new(name, created_at_ms=NOW_MS - 1) for name in ("gone", "bad", "good")]
        await store.add(old)
        held = {each.delivery.id: each.delivery for each in await store.claim(samples.claim())}
        changes = [samples.ended(held["gone"], "dismissed"), samples.ended(held["bad"], "failed")]
        await store.save([*changes, samples.ended(held["good"], "delivered")])
        await store.add(samples.many(20, created_at_ms=NOW_MS))
        found: tuple[tuple[State, str], ...] = (
            ("dismissed", "gone"),
            ("failed", "bad"),
            ("delivered", "good"),
        )
        for state, delivery_id in found:
            query = Query(facets=(Facet(state=state),))
            page = await reads.page_within(query, None, LIMIT, 5)
            assert [each.id for each in page.items] == [delivery_id]
            assert page.next is None

    async def test_what_has_a_state_and_no_time_of_its_end_is_listed_too(
        self, store: Store
    ) -> None:
        """Such as others have written; an index by the end may not have it."""
        ended = samples.new("timed", state="delivered", ended_at_ms=NOW_MS)
        await store.add([ended, samples.new("untimed", state="delivered")])
        page = await store.page(Query(facets=(Facet(state="delivered"),)))
        assert {each.id for each in page.items} == {"timed", "untimed"}

    @pytest.mark.parametrize("by", [(), ("source",), ("route", "state")])
    async def test_a_count_may_end_early(
        self, store: Store, reads: BoundedReads, by: tuple[GroupBy, ...]
    ) -> None:
        await store.add(population())
        query = Query(notices_due=True)
        exact = await store.count(query, by)
        assert await reads.count_up_to(query, 1000, by) == exact
        few = await reads.count_up_to(query, 5, by)
        assert sum(few.values()) == 5
        assert all(number <= exact[group] for group, number in few.items())

"""Filters, alone, in pairs, and all together."""

from __future__ import annotations

import itertools
import random

import pytest

from homing.domain.delivery import Change, New, Recipient
from homing.domain.failure import Failure
from homing.ports import Facet, Query, Store
from homing.testing import samples
from homing.testing.contract.filled import filled_delivery
from homing.testing.contract.opening import Opened
from homing.testing.contract.population import CONDITIONS, expected, population


class Filtering(Opened):
    @pytest.mark.parametrize("name", CONDITIONS)
    async def test_each_filter_finds_exactly_its_own(self, store: Store, name: str) -> None:
        lot = population()
        await store.add(lot)
        for value in CONDITIONS[name][0]:
            query = Query(**{name: value})
            found = expected(lot, {name: value})

            assert list((await store.page(query, limit=1000)).items) == found, value
            assert await store.count(query) == {(): len(found)}, value

    async def test_every_pair_of_filters_holds_together(self, store: Store) -> None:
        lot = population()
        await store.add(lot)
        rng = random.Random(7)  # noqa: S311 - as above
        some_found = 0
        for one, other in itertools.combinations(CONDITIONS, 2):
            for _ in range(3):
                conditions = {name: rng.choice(CONDITIONS[name][0]) for name in (one, other)}
                found = expected(lot, conditions)
                some_found += bool(found)

                page = await store.page(Query(**conditions), limit=1000)

                assert list(page.items) == found, conditions
        assert some_found > 60  # the lot is rich enough to prove something

    async def test_all_filters_at_once(self, store: Store) -> None:
        whole = filled_delivery("whole", failure=Failure("mailbox_full"))
        await store.add([*population(), New(whole)])
        facet = Facet(
            state="failed",
            stage=whole.stage,
            attempted=True,
            failed_because=whole.failed_because,
            phase=whole.phase,
        )
        query = Query(
            route=whole.route,
            source=whole.source,
            key=whole.key,
            topic=whole.topic,
            recipient=whole.recipients[1].address,
            error_class="mailbox_full",
            parent_id=whole.parent_id,
            clone_of=whole.clone_of,
            holder=whole.holder,
            notices_due=True,
            facets=(facet,),
            created_from_ms=whole.created_at_ms,
            created_before_ms=whole.created_at_ms + 1,
            updated_from_ms=whole.updated_at_ms,
        )

        assert [d.id for d in (await store.page(query)).items] == [whole.id]
        for field in Query.__struct_fields__:
            assert getattr(query, field) is not None, field

    async def test_filters_see_what_was_saved_last(self, store: Store) -> None:
        await store.add([samples.new("d1", recipients=(Recipient("ann"),), notices_due=("alert",))])
        (held,) = await store.claim(samples.claim("w1"))
        assert await store.count(Query(holder="w1", notices_due=True, recipient="ann")) == {(): 1}
        after = samples.changed(
            held.delivery,
            state="failed",
            holder=None,
            notices_due=(),
            recipients=(Recipient("bob"),),
            failure=Failure("timed_out"),
            topic="late",
        )

        await store.save([Change(after)])

        for gone in (Query(holder="w1"), Query(notices_due=True), Query(recipient="ann")):
            assert await store.count(gone) == {(): 0}
        for come in (Query(error_class="timed_out"), Query(recipient="bob"), Query(topic="late")):
            assert await store.count(come) == {(): 1}

    async def test_no_alternatives_mean_nothing(self, store: Store) -> None:
        """A label that stands for no combination finds no delivery, not every one."""
        await store.add(samples.many(2))

        assert (await store.page(Query(facets=()))).items == ()
        assert await store.count(Query(facets=()), by=("state",)) == {}

    async def test_a_waiting_parent_is_told_by_its_children_that_wait_for_a_retry(
        self, store: Store
    ) -> None:
        retrying = samples.child("c1", "p1", attempts_spent=1)
        untried, failed = samples.child("c2", "p2"), samples.child("c3", "p2", state="failed")
        parents = [samples.new(name, state="waiting", due_at_ms=None) for name in ("p1", "p2")]
        await store.add([*parents, retrying, untried, failed, samples.new("p3", state="waiting")])

        async def found(*, retrying_children: bool) -> list[str]:
            facet = Facet(state="waiting", retrying_children=retrying_children)
            query = Query(facets=(facet,))
            ids = [delivery.id for delivery in (await store.page(query)).items]
            assert await store.count(query) == {(): len(ids)}
            return sorted(ids)

        assert await found(retrying_children=True) == ["p1"]
        assert await found(retrying_children=False) == ["p2", "p3"]

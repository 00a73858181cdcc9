"""Filters, alone and in pairs, and counts by group; checked against plain predicates."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from homing.domain.delivery import Change, Delivery, New, Recipient
from homing.domain.failure import Failure
from homing.ports import Facet, GroupBy, Query, Store
from homing.testing import samples
from homing.testing.contract.filled import filled_delivery
from homing.testing.contract.opening import Opened
from homing.testing.samples import NOW_MS

# Like patterns of SQL, Redis or a shell, and quotes; all of them are plain text here.
ODD = ("a%", "a_", "a*", "a", "A", "a'b", 'a"b', "a\\b", "", "ab")

FACETS: tuple[tuple[Facet, ...], ...] = (
    (),
    (Facet(state="pending"),),
    (Facet(state="pending", attempted=False),),
    (Facet(state="pending", attempted=True, stage="send"),),
    (Facet(state="failed", failed_because="exhausted"),),
    (Facet(state="failed", failed_because="uncertain"), Facet(state="in_flight", stage="render")),
    (Facet(state="pending"), Facet(state="pending", attempted=True)),
    (Facet(state="pending", phase="inline"), Facet(state="in_flight", phase="worker")),
)

CONDITIONS: dict[str, tuple[tuple[Any, ...], Callable[[Delivery, Any], bool]]] = {
    "route": (("mail", "jobs", "none"), lambda d, v: d.route == v),
    "source": (ODD, lambda d, v: d.source == v),
    "key": (ODD, lambda d, v: d.key == v),
    "topic": (ODD, lambda d, v: d.topic == v),
    "recipient": (ODD, lambda d, v: v in [r.address for r in d.recipients]),
    "error_class": (
        ("timed_out", "a_b", ""),
        lambda d, v: d.failure is not None and d.failure.error_class == v,
    ),
    "parent_id": (("p1", "p2", "none"), lambda d, v: d.parent_id == v),
    "clone_of": (("c1", "none"), lambda d, v: d.clone_of == v),
    "holder": (("w1", "w2", "none"), lambda d, v: d.holder == v),
    "owing": ((True, False), lambda d, v: (len(d.owed) > 0) == v),
    "facets": (
        FACETS,
        lambda d, v: any(
            d.state == f.state
            and (f.stage is None or d.stage == f.stage)
            and (f.attempted is None or (d.attempts > 0) == f.attempted)
            and (f.failed_because is None or d.failed_because == f.failed_because)
            and (f.phase is None or d.phase == f.phase)
            for f in v
        ),
    ),
    "created_from_ms": ((NOW_MS, NOW_MS + 2, NOW_MS + 99), lambda d, v: d.created_at_ms >= v),
    "created_before_ms": ((NOW_MS, NOW_MS + 2, NOW_MS + 99), lambda d, v: d.created_at_ms < v),
}

GROUPS: dict[GroupBy, Callable[[Delivery], str]] = {
    "route": lambda d: d.route,
    "state": lambda d: d.state,
    "failed_because": lambda d: d.failed_because or "",
    "error_class": lambda d: d.failure.error_class if d.failure else "",
    "stage": lambda d: d.stage,
    "required": lambda d: {True: "true", False: "false"}[d.required],
    "lane": lambda d: d.lane,
    "source": lambda d: d.source,
}


def population(size: int = 150) -> list[New]:
    """A mixed lot, the same each time."""
    dice = random.Random(25)  # noqa: S311 - a lot drawn for tests
    return [_one(dice, number) for number in range(size)]


def _one(dice: random.Random, number: int) -> New:
    pick = dice.choice
    state = pick(("pending", "pending", "in_flight", "failed", "delivered", "dismissed"))
    has_failed = state == "failed" or dice.random() < 0.3
    return samples.new(
        f"d{number:03}",
        route=pick(("mail", "jobs")),
        lane=pick(("x", "y")),
        stage=pick(("render", "send")),
        source=pick(ODD),
        key=pick((None, *ODD)),
        topic=pick((None, *ODD)),
        recipients=tuple(Recipient(name) for name in dice.sample(ODD, dice.randrange(4))),
        failure=Failure(pick(("timed_out", "a_b", "axb", ""))) if has_failed else None,
        failed_because=pick(("exhausted", "uncertain")) if state == "failed" else None,
        state=state,
        attempts=pick((0, 0, 1, 5)),
        phase=pick(("inline", "worker")),
        parent_id=pick((None, "p1", "p2")),
        clone_of=pick((None, "c1")),
        holder=pick(("w1", "w2")) if state == "in_flight" else None,
        owed=pick(((), (), ("alert",), ("alert", "log"))),
        required=pick((True, True, False)),
        created_at_ms=NOW_MS + dice.randrange(5),
    )


def expected(lot: list[New], conditions: dict[str, Any]) -> list[Delivery]:
    found = [
        new.delivery
        for new in lot
        if all(CONDITIONS[name][1](new.delivery, value) for name, value in conditions.items())
    ]
    return sorted(found, key=lambda d: (d.created_at_ms, d.id), reverse=True)


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
        dice = random.Random(7)  # noqa: S311 - as above
        some_found = 0
        for one, other in itertools.combinations(CONDITIONS, 2):
            for _ in range(3):
                conditions = {name: dice.choice(CONDITIONS[name][0]) for name in (one, other)}
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
            owing=True,
            facets=(facet,),
            created_from_ms=whole.created_at_ms,
            created_before_ms=whole.created_at_ms + 1,
        )

        assert [d.id for d in (await store.page(query)).items] == [whole.id]
        for field in Query.__struct_fields__:
            assert getattr(query, field) is not None, field

    async def test_filters_see_what_was_saved_last(self, store: Store) -> None:
        await store.add([samples.new("d1", recipients=(Recipient("ann"),), owed=("alert",))])
        (held,) = await store.claim(samples.claim("w1"))
        assert await store.count(Query(holder="w1", owing=True, recipient="ann")) == {(): 1}
        after = samples.changed(
            held.delivery,
            state="failed",
            holder=None,
            owed=(),
            recipients=(Recipient("bob"),),
            failure=Failure("timed_out"),
            topic="late",
        )

        await store.save([Change(after)])

        for gone in (Query(holder="w1"), Query(owing=True), Query(recipient="ann")):
            assert await store.count(gone) == {(): 0}
        for come in (Query(error_class="timed_out"), Query(recipient="bob"), Query(topic="late")):
            assert await store.count(come) == {(): 1}

    async def test_no_alternatives_mean_nothing(self, store: Store) -> None:
        """A label that stands for no combination finds no delivery, not every one."""
        await store.add(samples.many(2))

        assert (await store.page(Query(facets=()))).items == ()
        assert await store.count(Query(facets=()), by=("state",)) == {}


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

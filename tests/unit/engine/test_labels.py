"""A design's own words: the same table shows a delivery and filters by the word."""

from __future__ import annotations

from typing import get_args

import pytest

from homing.domain.delivery import Delivery, FailedBecause, Phase, State
from homing.domain.failure import Failure
from homing.engine.ops.caller import CallerOperations
from homing.engine.ops.labels import ENGINE_LABELS, Label, LabelTable, labels
from homing.ports import Facet, FanOut, Outcome, Query, Work
from homing.testing import samples
from tests.unit.engine.world import Script, World, route

STAGES = ("render", "send")
MAIL = LabelTable(
    (
        Label("queued", "pending", stage="render"),
        Label("queued", "in_flight", stage="render"),
        Label("rendered", "pending", stage="send", attempted=False),
        Label("queued", "pending"),
        Label("sending", "in_flight"),
        Label("sent", "delivered"),
        Label("failed", "failed", failed_because="rejected"),
        Label("dead_letter", "failed"),
    )
)


REVIEWS = LabelTable(
    (
        Label("retryable_failed", "waiting", retrying_children=True),
        Label("in_progress", "waiting"),
        Label("in_progress", "in_flight"),
    )
)


def every_delivery() -> list[Delivery]:
    """One for each combination that a store can hold."""
    made = []
    for state in get_args(State):
        reasons = get_args(FailedBecause) if state == "failed" else (None,)
        phases = get_args(Phase) if state == "in_flight" else ("worker",)
        children = (0, 1, 5) if state == "waiting" else (0,)
        made += [
            samples.delivery(
                "d1",
                state=state,
                stage=stage,
                attempts_spent=n,
                failed_because=why,
                phase=phase,
                retrying_children=retrying,
            )
            for stage in STAGES
            for n in (0, 1, 7)
            for why in reasons
            for phase in phases
            for retrying in children
        ]
    return made


def matches(delivery: Delivery, facet: Facet) -> bool:
    """As a store filters: None is any."""
    return (
        facet.state == delivery.state
        and facet.stage in (None, delivery.stage)
        and facet.attempted in (None, delivery.attempts_spent > 0)
        and facet.failed_because in (None, delivery.failed_because)
        and facet.phase in (None, delivery.phase)
        and facet.retrying_children in (None, delivery.retrying_children > 0)
    )


@pytest.mark.parametrize(
    ("word", "fields"),
    [
        ("queued", {"stage": "render"}),
        ("queued", {"stage": "render", "state": "in_flight"}),
        ("rendered", {"stage": "send"}),
        ("queued", {"stage": "send", "attempts_spent": 1}),
        ("sending", {"stage": "send", "state": "in_flight"}),
        ("failed", {"state": "failed", "failed_because": "rejected"}),
        ("dead_letter", {"state": "failed", "failed_because": "poison"}),
    ],
)
def test_the_first_row_that_fits_names_it(word: str, fields: dict[str, object]) -> None:
    assert MAIL.word(samples.delivery("d1", **fields)) == word


def test_without_a_row_the_engines_own_word_is_shown() -> None:
    assert MAIL.word(samples.delivery("d1", state="dismissed")) == "dismissed"


def test_the_words_are_listed_once_in_the_order_of_the_table() -> None:
    assert MAIL.words() == ("queued", "rendered", "sending", "sent", "failed", "dead_letter")


@pytest.mark.parametrize("table", [MAIL, REVIEWS, ENGINE_LABELS, labels({"pending": "PENDING"})])
def test_a_filter_by_a_word_finds_exactly_what_is_shown_under_it(table: LabelTable) -> None:
    words = {table.word(delivery) for delivery in every_delivery()}

    for word in words:
        facets = table.facets(word, STAGES)
        for delivery in every_delivery():
            found = any(matches(delivery, facet) for facet in facets)
            assert found == (table.word(delivery) == word), (word, delivery)


def test_the_simple_table_has_one_word_for_each_state() -> None:
    table = labels({"pending": "PENDING", "failed": "DEAD"})

    assert table.word(samples.delivery("d1")) == "PENDING"
    assert table.word(samples.delivery("d1", state="failed", failed_because="poison")) == "DEAD"


def test_the_engine_shows_its_own_states() -> None:
    assert ENGINE_LABELS.words() == get_args(State)


@pytest.mark.parametrize(
    "row",
    [
        Label("closed", "dismissed", failed_because="rejected"),
        Label("first", "pending", phase="inline"),
        Label("retrying", "pending", retrying_children=True),
    ],
)
def test_a_row_that_no_filter_could_find_is_refused(row: Label) -> None:
    with pytest.raises(ValueError, match=row.word):
        LabelTable((row,))


async def test_the_desk_shows_a_waiting_parent_with_its_children() -> None:
    """R-024: a transient failure waiting, or work running."""
    step = Script(Failure("deferred"))

    async def fan_out(work: Work) -> Outcome:
        if work.delivery.parent_id is not None:
            return await step(work)
        return FanOut(tuple(work.child(payload=part) for part in (b"a", b"b")))

    world = World(route(step=fan_out, labels=REVIEWS))
    accepted = await world.submit()
    await world.run()

    ops = CallerOperations.of(world.engine.ops, sees_personal_data=True)

    async def word() -> str:
        shown = await world.engine.ops.show(accepted.id)
        page = await ops.page(Query(facets=(Facet(state="waiting"),)))
        words = {world.route.word(delivery) for delivery in (shown, *page.items)}
        assert len(words) == 1
        [found] = words
        facets = REVIEWS.facets(found, ("handle",))
        by_word = await ops.page(Query(facets=facets))
        assert accepted.id in {delivery.id for delivery in by_word.items}
        return found

    assert await word() == "retryable_failed"
    [child] = [one for one in step.seen if (await world.get(one.id)).state == "pending"]
    world.clock.advance(60)
    await world.crash_of_another(child.id)
    assert await word() == "in_progress"

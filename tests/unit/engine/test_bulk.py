"""Verbs on many: counted, predicted, paced; they stop themselves, and others can stop them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, get_args

import pytest

from homing.domain.delivery import FailedBecause
from homing.domain.errors import InvalidRequest, NotFound
from homing.domain.failure import Failure
from homing.engine.ops import bulk
from homing.engine.ops.bulk import BulkActions, BulkProgress, selected
from homing.engine.ops.delivery_filter import DeliveryFilter
from homing.engine.ops.verbs import BulkVerb
from homing.ports import Done, Facet, Query
from homing.testing.random_numbers import SeededRandom
from tests.unit.engine.world import Script, World, route

GONE = Failure("gone", "reject")
FULL = Failure("mailbox_full", "reject")
DOUBT = Failure("no_answer", "reject", maybe_sent=True)
ANY = DeliveryFilter()
SIGNED: dict[str, Any] = {"actor": "ann", "reason": "x"}


def actions(world: World, seed: str = "r") -> BulkActions:
    return BulkActions(world.store, world.engine.ops, world.clock, SeededRandom(seed))


async def with_dead(*failures: Failure, pending: int = 0) -> World:
    """A world with a dead letter for each failure, and some that are not tried yet."""
    world = World(route(step=Script(*failures)), name="w1")
    for number in range(len(failures)):
        await world.submit(f"order-{number}")
    await world.run()
    for number in range(pending):
        await world.submit(f"later-{number}")
    return world


async def replay_all(
    monkeypatch: pytest.MonkeyPatch,
    *second_tries: Failure | Done,
    in_pause: Callable[[World], Awaitable[Any]] = lambda worker: worker.run(),
    dead: int = 4,
) -> BulkProgress:
    """Replay dead letters in one process while another one, with the same store, works."""
    worker = World(route(step=Script(*[GONE] * dead, *second_tries)), name="w1")
    for number in range(dead):
        await worker.submit(f"order-{number}")
    await worker.run()
    here = World(route(), store=worker.store, clock=worker.clock, name="w2")

    async def pause(*_: object) -> None:
        await in_pause(worker)

    monkeypatch.setattr(bulk, "pause", pause)
    running = actions(here)
    started = await running.start("replay", ANY, everything=True, per_second=1.0, **SIGNED)
    await running.finished()
    assert started == await running.show(started.bulk_id)
    return started


async def test_the_same_error_in_another_process_stops_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    progress = await replay_all(monkeypatch, Done(), GONE)

    assert (progress.done, progress.state) == (2, "stopped")
    assert progress.stopped_because == "gone"


@pytest.mark.parametrize("outcome", [Done(), FULL])
async def test_any_other_outcome_lets_them_go_on(
    monkeypatch: pytest.MonkeyPatch, outcome: Failure | Done
) -> None:
    progress = await replay_all(monkeypatch, *[outcome] * 4)

    assert (progress.done, progress.state, progress.stopped_because) == (4, "done", None)


async def test_what_is_tried_late_is_still_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[None] = []

    async def work_in_the_third(worker: World) -> None:
        pauses.append(None)
        if len(pauses) == 3:
            await worker.run()

    progress = await replay_all(monkeypatch, Done(), GONE, Done(), in_pause=work_in_the_third)

    assert (progress.done, progress.stopped_because) == (3, "gone")


async def test_the_last_one_of_all_is_looked_at_too(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = await replay_all(monkeypatch, GONE, dead=1)

    assert (progress.state, progress.stopped_because) == ("stopped", "gone")


async def test_everything_must_be_asked_for_by_name() -> None:
    running = actions(await with_dead(GONE))

    with pytest.raises(InvalidRequest, match="everything must be asked for by name"):
        await running.count("replay", DeliveryFilter())
    with pytest.raises(InvalidRequest, match="everything must be asked for by name"):
        await running.start("dismiss", DeliveryFilter(), **SIGNED)
    assert await running.count("replay", ANY, everything=True) == 1


async def test_uncertain_ones_are_chosen_only_by_name() -> None:
    running = actions(await with_dead(GONE, DOUBT, FULL))
    uncertain = DeliveryFilter(reason="uncertain")

    assert await running.count("replay", ANY, everything=True) == 2
    assert await running.count("dismiss", DeliveryFilter(state="failed")) == 2
    assert await running.count("replay", uncertain) == 1


async def test_a_word_that_stands_for_every_reason_does_not_name_uncertain_ones() -> None:
    """As the word of a route with a label table of its own does."""
    world = await with_dead(GONE, DOUBT, FULL)
    reasons = get_args(FailedBecause)
    dead_letter = tuple(Facet(state="failed", failed_because=each) for each in reasons)
    query = selected("replay", Query(facets=dead_letter))

    assert sum((await world.store.count(query)).values()) == 2


async def test_a_verb_chooses_what_it_can_be_used_on() -> None:
    running = actions(await with_dead(GONE, FULL, pending=3))

    assert await running.count("cancel", ANY, everything=True) == 3
    assert await running.count("dismiss", DeliveryFilter(error_class="gone")) == 1
    assert await running.count("replay", DeliveryFilter(state="delivered")) == 0


async def test_a_prediction_says_what_would_become_of_each_and_changes_nothing() -> None:
    world = await with_dead(GONE, GONE, FULL, pending=1)
    running = actions(world)
    before = await world.store.page(Query())

    seen = [one async for one in running.predict("replay", DeliveryFilter(error_class="gone"))]
    cancelled = [one async for one in running.predict("cancel", ANY, everything=True)]
    first = [one async for one in running.predict("dismiss", ANY, everything=True, limit=1)]

    assert [one.after.state for one in seen if one.after] == ["pending", "pending"]
    assert [one.after.state for one in cancelled if one.after] == ["dismissed"]
    assert len(first) == 1
    assert await world.store.page(Query()) == before


async def test_a_prediction_tells_why_a_route_would_refuse() -> None:
    world = World(route(step=Script(GONE), verbs=frozenset({"replay"})), name="w1")
    await world.submit("order-1")
    await world.run()

    [one] = [one async for one in actions(world).predict("dismiss", ANY, everything=True)]

    assert one.after is None
    assert "does not offer dismiss" in (one.refused_because or "")


async def test_many_are_dismissed_and_cancelled_each_with_its_audit() -> None:
    world = await with_dead(GONE, FULL, pending=2)
    running = actions(world)

    dismissed = await running.start("dismiss", DeliveryFilter(error_class="gone"), **SIGNED)
    cancelled = await running.start("cancel", ANY, everything=True, **SIGNED)
    await running.finished()

    assert (dismissed.matched, dismissed.done, dismissed.state) == (1, 1, "done")
    assert (cancelled.matched, cancelled.done, cancelled.state) == (2, 2, "done")
    page = await world.store.page(Query(facets=(Facet(state="dismissed"),)))
    assert len(page.items) == 3
    for delivery in page.items:
        assert len(await world.engine.ops.audit(delivery.id)) == 1


async def test_dismissed_and_cancelled_ones_are_restored() -> None:
    world = await with_dead(GONE, DOUBT, pending=1)
    running = actions(world)
    for verb, chosen in (("dismiss", DeliveryFilter()), ("cancel", DeliveryFilter())):
        await running.start(verb, chosen, everything=True, **SIGNED)  # type: ignore[arg-type]
        await running.finished()

    foreseen = [one async for one in running.predict("restore", ANY, everything=True)]
    progress = await running.start("restore", ANY, everything=True, **SIGNED)
    await running.finished()

    assert (progress.matched, progress.done, progress.state) == (2, 2, "done")
    states = [(await world.get(one.delivery.id)).state for one in foreseen]
    assert sorted(states) == ["failed", "pending"]
    assert states == [one.after.state for one in foreseen if one.after is not None]


async def test_a_limit_is_kept() -> None:
    running = actions(await with_dead(GONE, GONE, GONE))

    progress = await running.start("dismiss", ANY, everything=True, limit=2, **SIGNED)
    await running.finished()

    assert (progress.matched, progress.done, progress.state) == (3, 2, "done")


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_any_process_can_stop_it(monkeypatch: pytest.MonkeyPatch, elsewhere: bool) -> None:
    world = await with_dead(GONE, GONE, GONE)
    here, other = actions(world, "a"), actions(world, "b")
    paused, go_on = asyncio.Event(), asyncio.Event()

    async def pause(pause_s: float, stop_asked: asyncio.Event) -> None:
        del pause_s
        paused.set()
        await (go_on if elsewhere else stop_asked).wait()

    monkeypatch.setattr(bulk, "pause", pause)
    progress = await here.start("dismiss", ANY, everything=True, per_second=0.001, **SIGNED)
    await paused.wait()
    await (other if elsewhere else here).stop(progress.bulk_id)
    go_on.set()
    await here.finished()

    assert (progress.done, progress.state) == (1, "stopped")
    assert (await other.show(progress.bulk_id)).stopped_because == "stopped by an operator"


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"verb": "restart"}, "verb: must be one of replay, dismiss, cancel"),
        ({"actor": ""}, "actor: must not be empty"),
        ({"reason": " "}, "reason: must not be empty"),
        ({"per_second": 0.0}, "per_second: must be more than 0"),
    ],
)
async def test_what_is_wrong_is_refused_before_anything_is_done(
    wrong: dict[str, Any], problem: str
) -> None:
    world = await with_dead(GONE)
    given = {"verb": "dismiss", "chosen": DeliveryFilter(), "everything": True, **SIGNED, **wrong}

    with pytest.raises(InvalidRequest, match=problem):
        await actions(world).start(**given)

    assert await world.store.facts(bulk.BULK_ACTIONS) == []
    [delivery] = (await world.store.page(Query())).items
    assert delivery.state == "failed"
    if "verb" in wrong:
        with pytest.raises(InvalidRequest, match=problem):
            world.engine.ops.predict(wrong["verb"], delivery)


async def test_an_unknown_one_is_not_found() -> None:
    with pytest.raises(NotFound, match="no bulk action nope"):
        await actions(await with_dead()).show("nope")


async def test_errors_are_grouped_with_the_newest_of_each() -> None:
    world = await with_dead(GONE, FULL, GONE)

    groups = await world.engine.ops.failures()

    assert [(g.error_class, g.failed_because, g.count) for g in groups] == [
        ("gone", "rejected", 2),
        ("mailbox_full", "rejected", 1),
    ]
    newest = groups[0].newest
    assert newest is not None
    assert newest.key == "order-2"


async def test_its_progress_is_stored_while_it_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    world = await with_dead(GONE, GONE)
    here, other = actions(world, "a"), actions(world, "b")
    paused = asyncio.Event()

    async def pause(_: float, stop_asked: asyncio.Event) -> None:
        paused.set()
        await stop_asked.wait()

    monkeypatch.setattr(bulk, "pause", pause)
    started = await here.start("dismiss", ANY, everything=True, per_second=0.001, **SIGNED)
    await paused.wait()

    found = await other.show(started.bulk_id)
    assert (found.done, found.state) == (1, "running")
    await here.close()


async def test_its_heartbeat_is_the_progress_that_is_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = await with_dead(GONE, GONE)
    here, other = actions(world, "a"), actions(world, "b")
    monkeypatch.setattr(bulk, "KEEP_EVERY_S", 0.001)
    started = await here.start("dismiss", ANY, everything=True, per_second=0.001, **SIGNED)
    world.clock.advance(3600)
    async with asyncio.timeout(30):
        while True:
            [fact] = await world.store.facts(bulk.BULK_ACTIONS)
            if fact.at_ms == world.clock.now_ms():
                break
            await asyncio.sleep(0.001)

    assert (await other.show(started.bulk_id)).state == "running"
    await here.close()


async def test_one_whose_process_has_died_reads_as_stopped() -> None:
    world = await with_dead(GONE)
    running = BulkProgress("abc", "dismiss", matched=40, done=17)
    await actions(world)._keep(running)
    world.clock.advance(bulk.SILENT_AFTER_S + 1)

    found = await actions(world).show("abc")
    assert (found.state, found.done) == ("stopped", 17)
    assert found.stopped_because == bulk.PROCESS_ENDED
    await actions(world).stop("abc", **SIGNED)
    assert await world.store.facts(bulk.STOP_ASKED, "abc"), "it may only have been paused"


@pytest.mark.parametrize(
    ("verb", "chosen", "number"),
    [
        ("replay", DeliveryFilter(), 1),
        ("replay", DeliveryFilter(state="failed"), 1),
        ("replay", DeliveryFilter(reason="uncertain"), 0),
        ("replay", DeliveryFilter(reason="rejected"), 0),
        ("replay", DeliveryFilter(state="pending"), 0),
        ("cancel", DeliveryFilter(), 0),
    ],
)
async def test_uncertain_ones_that_are_left_out_are_counted(
    verb: BulkVerb, chosen: DeliveryFilter, number: int
) -> None:
    running = actions(await with_dead(GONE, DOUBT))

    assert await running.count_left_out(verb, chosen) == number
    started = await running.start(verb, chosen, everything=True, **SIGNED)
    await running.finished()
    assert started.uncertain_left_out == number

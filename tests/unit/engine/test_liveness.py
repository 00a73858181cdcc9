"""Who is alive: beats are compared by clocks that no step of the wall clock can move (I15)."""

from __future__ import annotations

from homing.engine.liveness import WORKER, Liveness
from homing.stores.memory import MemoryStore
from homing.testing.clocks import DAY_S, ManualClock

PATIENCE_S = 60.0


def process(store: MemoryStore, clock: ManualClock, name: str) -> Liveness:
    return Liveness(store, clock, name, patience_s=PATIENCE_S, about={"host": "h1"})


def judged(one: Liveness) -> tuple[set[str], set[str]]:
    """Whom it holds for alive, and whom for dead."""
    return set(one.alive), set(one.dead)


async def test_a_process_of_the_same_boot_is_alive_as_long_as_it_beats() -> None:
    store, clock = MemoryStore(), ManualClock()
    one, other = process(store, clock, "w1"), process(store, clock, "w2")
    await other.beat()

    clock.advance(PATIENCE_S - 1)
    await one.look()
    assert judged(one) == ({"w2"}, set())

    clock.advance(1)
    await one.look()
    assert judged(one) == (set(), {"w2"})

    await other.beat()
    await one.look()
    assert one.alive == {"w2"}


async def test_i15_a_jump_of_the_wall_clock_kills_nobody_and_revives_nobody() -> None:
    store, clock = MemoryStore(), ManualClock()
    one, other = process(store, clock, "w1"), process(store, clock, "w2")
    await other.beat()

    for jump_s in (DAY_S, -2 * DAY_S):
        clock.jump(jump_s)
        await one.look()
        assert one.alive == {"w2"}

    clock.advance(PATIENCE_S)
    clock.jump(-DAY_S)
    await one.look()
    assert one.dead == {"w2"}


async def test_a_process_of_another_machine_is_judged_by_our_own_clock() -> None:
    store, here, there = MemoryStore(), ManualClock(), ManualClock(steady_s=9.0, boot="boot-2")
    one, other = process(store, here, "w1"), process(store, there, "w2")
    there.jump(-DAY_S)
    await other.beat()

    await one.look()
    assert one.alive == {"w2"}, "at first sight it has our whole patience"

    here.advance(PATIENCE_S - 1)
    await other.beat()
    await one.look()
    assert one.alive == {"w2"}, "its beat has changed"

    here.advance(PATIENCE_S)
    await one.look()
    assert one.dead == {"w2"}


async def test_nobody_judges_itself() -> None:
    store, clock = MemoryStore(), ManualClock()
    one = process(store, clock, "w1")
    await one.beat()

    clock.advance(10 * PATIENCE_S)
    await one.look()

    assert judged(one) == (set(), set())


async def test_a_farewell_leaves_nothing_to_wait_for() -> None:
    store, clock = MemoryStore(), ManualClock()
    one, other = process(store, clock, "w1"), process(store, clock, "w2")
    await other.beat()
    await other.farewell()

    await one.look()

    assert judged(one) == (set(), set())


async def test_a_beat_tells_about_its_process() -> None:
    store, clock = MemoryStore(), ManualClock()
    one = process(store, clock, "w1")

    await one.beat()
    await one.beat()

    [fact] = await store.facts(WORKER)
    assert (fact.key, fact.at_ms) == ("w1", clock.now_ms())
    assert fact.value is not None
    assert (fact.value["host"], fact.value["beats"], fact.value["boot"]) == ("h1", 2, "boot-1")


async def test_it_beats_often_enough_to_miss_several() -> None:
    assert process(MemoryStore(), ManualClock(), "w1").beat_every_s * 3 < PATIENCE_S


async def test_a_process_that_was_frozen_beats_before_it_takes_work() -> None:
    store, clock = MemoryStore(), ManualClock()
    one, other = process(store, clock, "w1"), process(store, clock, "w2")
    await one.beat()
    clock.advance(PATIENCE_S)
    assert one.is_fresh is False

    await one.refresh_if_stale()

    await other.look()
    assert other.alive == {"w1"}


async def test_after_a_clock_step_it_looks_again_before_it_takes_work() -> None:
    store, clock = MemoryStore(), ManualClock()
    one, other = process(store, clock, "w1"), process(store, clock, "w2")
    await one.beat()
    await one.look()
    await other.beat()

    clock.jump(-DAY_S)
    await one.refresh_if_stale()

    assert one.alive == {"w2"}


async def test_the_forgotten_are_gone_for_all() -> None:
    store, clock = MemoryStore(), ManualClock()
    one, other = process(store, clock, "w1"), process(store, clock, "w2")
    await other.beat()

    await one.forget("w2")
    await one.look()

    assert judged(one) == (set(), set())

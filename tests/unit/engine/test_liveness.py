"""Who is alive: beats are compared by clocks that no step of the wall clock can move (I15)."""

from __future__ import annotations

from pathlib import Path

from homing.engine.process import liveness
from homing.engine.process.liveness import OLD_BEAT_S, WORKER, Liveness
from homing.stores.host import ProcessLocks
from homing.stores.memory import MemoryStore
from homing.testing.clocks import DAY_S, ManualClock

PATIENCE_S = 60.0
LEASE_S = 90.0


def process(
    store: MemoryStore, clock: ManualClock, name: str, locks: ProcessLocks | None = None
) -> Liveness:
    return Liveness(
        store,
        clock,
        name,
        patience_s=PATIENCE_S,
        runs_patience_s=LEASE_S,
        presence=locks,
        about={"host": "h1"},
    )


def judged(one: Liveness) -> tuple[set[str], set[str]]:
    """Whom it holds for alive, and whom for dead."""
    return set(one.alive), set(one.dead)


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


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
    await other.withdraw()

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


async def test_a_process_elsewhere_is_known_dead_within_20_s() -> None:
    store, clock = MemoryStore(), ManualClock()
    one, other = Liveness(store, clock, "w1"), Liveness(store, clock, "w2")
    await other.beat()

    clock.advance(20)
    await one.look()

    assert liveness.PATIENCE_S == 20
    assert one.beat_every_s == 5
    assert one.dead == {"w2"}


async def test_a_dead_process_of_this_host_is_known_at_once(tmp_path: Path) -> None:
    store, clock = MemoryStore(), ManualClock()
    locks = ProcessLocks(tmp_path)
    one, other = (
        process(store, clock, "w1", ProcessLocks(tmp_path)),
        process(store, clock, "w2", locks),
    )
    await other.beat()
    await one.look()
    assert judged(one) == ({"w2"}, set())

    locks.abandon("w2")  # as the system does when it dies
    await one.look()

    assert judged(one) == (set(), {"w2"})
    assert one.proved_dead == {"w2"}


async def test_one_that_died_before_its_first_beat_is_known_too(tmp_path: Path) -> None:
    store, clock, locks = MemoryStore(), ManualClock(), ProcessLocks(tmp_path)
    locks.announce("w2", clock.boot)
    locks.abandon("w2")
    one = process(store, clock, "w1", ProcessLocks(tmp_path))

    await one.look()

    assert one.proved_dead == one.dead == {"w2"}


async def test_one_that_runs_and_does_not_beat_keeps_its_work_until_its_leases_end(
    tmp_path: Path,
) -> None:
    """It is stopped by a signal, or too busy; its leases end as they always do."""
    store, clock = MemoryStore(), ManualClock()
    one = process(store, clock, "w1", ProcessLocks(tmp_path))
    other = process(store, clock, "w2", ProcessLocks(tmp_path))
    await other.beat()

    clock.advance(LEASE_S - 1)
    await one.look()
    assert judged(one) == ({"w2"}, set())

    clock.advance(1)
    await one.look()
    assert judged(one) == (set(), {"w2"})
    assert one.proved_dead == set()


async def test_a_lock_of_another_boot_proves_nothing(tmp_path: Path) -> None:
    """On a network file system it may look free although its process runs elsewhere."""
    store, here, there = MemoryStore(), ManualClock(), ManualClock(boot="boot-2")
    locks = ProcessLocks(tmp_path)
    one, other = (
        process(store, here, "w1", ProcessLocks(tmp_path)),
        process(store, there, "w2", locks),
    )
    await other.beat()
    locks.abandon("w2")

    await one.look()

    assert judged(one) == ({"w2"}, set())


async def test_a_lock_that_was_removed_from_outside_proves_nothing_and_comes_back(
    tmp_path: Path,
) -> None:
    store, clock = MemoryStore(), ManualClock()
    one = process(store, clock, "w1", ProcessLocks(tmp_path))
    locks = ProcessLocks(tmp_path)
    other = process(store, clock, "w2", locks)
    await other.beat()
    for file in files(tmp_path):
        file.unlink()
    await one.look()
    assert judged(one) == ({"w2"}, set())

    await other.beat()
    locks.abandon("w2")
    await one.look()
    assert one.proved_dead == {"w2"}


async def test_an_end_that_leaves_work_in_hand_is_seen_as_a_death(tmp_path: Path) -> None:
    store, clock = MemoryStore(), ManualClock()
    one = process(store, clock, "w1", ProcessLocks(tmp_path))
    other = process(store, clock, "w2", ProcessLocks(tmp_path))
    await other.beat()

    other.abandon()
    await one.look()

    assert one.dead == {"w2"}


async def test_the_files_of_the_gone_are_removed(tmp_path: Path) -> None:
    store, clock = MemoryStore(), ManualClock()
    one = process(store, clock, "w1", ProcessLocks(tmp_path))
    leaving, dying = (process(store, clock, name, ProcessLocks(tmp_path)) for name in ("w2", "w3"))
    await leaving.beat()
    await dying.beat()

    await leaving.withdraw()
    dying.abandon()
    await one.look()
    await one.forget("w3")

    assert files(tmp_path) == []


async def test_who_could_not_beat_itself_gives_the_others_time_to(tmp_path: Path) -> None:
    """A store that took no writes has kept all of them from beating."""
    store, clock = MemoryStore(), ManualClock()
    one, other = process(store, clock, "w1"), process(store, clock, "w2")
    await one.beat()
    await other.beat()
    clock.advance(PATIENCE_S)
    await one.beat()

    await one.look()
    assert judged(one) == ({"w2"}, set())

    for _ in range(4):
        clock.advance(PATIENCE_S / 4)
        await one.beat()
    await one.look()
    assert judged(one) == (set(), {"w2"})


async def test_only_those_that_work_something_off_are_workers() -> None:
    store, clock = MemoryStore(), ManualClock()
    one, worker, sender = (process(store, clock, name) for name in ("w1", "w2", "w3"))
    worker.queues = ("mail", "event/paid")
    await worker.beat()
    await sender.beat()

    await one.look()

    assert one.alive == {"w2", "w3"}
    assert one.workers == {"w2": {"mail", "event/paid"}}
    assert one.is_served("mail")
    assert not one.is_served("reviews")


async def test_a_worker_that_runs_and_does_not_beat_serves_nothing(tmp_path: Path) -> None:
    """A stopped worker keeps what it holds, but what waits in its queues waits for no one."""
    store, clock = MemoryStore(), ManualClock()
    one = process(store, clock, "w1", ProcessLocks(tmp_path))
    other = process(store, clock, "w2", ProcessLocks(tmp_path))
    other.queues = ("mail",)
    await other.beat()

    clock.advance(PATIENCE_S)
    await one.look()
    assert one.alive == {"w2"}
    assert one.beating == set()
    assert one.workers == {}
    assert not one.is_served("mail")

    await other.beat()
    await one.look()
    assert one.beating == {"w2"}
    assert one.is_served("mail")


async def test_whoever_looks_once_does_not_count_a_worker_that_died_elsewhere_long_ago() -> None:
    store, here, there = MemoryStore(), ManualClock(), ManualClock(boot="boot-2")
    one, other = process(store, here, "w1"), process(store, there, "w2")
    other.queues = ("mail",)
    await other.beat()
    here.advance(OLD_BEAT_S)

    await one.look()
    assert one.alive == {"w2"}, "its work is left to it for our whole patience"
    assert one.workers == {}

    await other.beat()  # its wall is only behind ours
    await one.look()
    assert set(one.workers) == {"w2"}

"""SIGKILL of a worker process at any moment under load (I1, I7 to I10, I14, I16)."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from homing.runtime.app import Homing
from homing.stores.sql.sqlite import SqliteStore
from tests.faults.killing import LOAD, Callers, figures, kill_at_random, ledger_bytes
from tests.faults.processes import BOUND_S, WorkerProcess, lives, until
from tests.faults.reckoning import contradictions, lost, read_books
from tests.faults.shared_time import SharedTime
from tests.faults.traps import Trap
from tests.faults.worker import Setup

KILLS = 4
SEED = 1
HOUR_S = 3600.0
LONG_LEASE_S = 600.0
# Up to this many sends of a process are between mark and outcome at any moment (W1).
SLOTS = 64
DOOMED = "doomed@stub.test"


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(folder=tmp_path, store=tmp_path / "outbox.db", time=tmp_path / "time")


def test_every_acknowledged_delivery_ends_as_promised(
    setup: Setup, capsys: pytest.CaptureFixture[str]
) -> None:
    """One life after the other, each an hour later, each killed under load but for the last."""
    random, callers, time = Random(SEED), Callers(), SharedTime(setup.time)
    with lives() as start:
        for _ in range(KILLS):
            victim = start(replace(setup, latency_ms=random.choice((0, 5)))).ready()
            callers.ask(victim)
            kill_at_random(victim, random)
            callers.hear(victim)
            time.let_pass(HOUR_S)
        finish(start(setup).ready(), callers)

    books = read_books(setup.store, setup.ledger)
    assert callers.contradicted == []
    assert len(callers.promised) == KILLS * LOAD
    assert len(books.records) == KILLS * LOAD
    assert lost(books, callers.promised) == []
    assert contradictions(books) == []
    assert books.duplicates <= KILLS * SLOTS
    with capsys.disabled():
        print(f"\n  {figures(books, KILLS)}")  # noqa: T201 - the figure is a product


@pytest.fixture
def long_leased(setup: Setup) -> Setup:
    """In real time, with leases that end after the bound of every wait here: whatever is taken
    over was taken over because its holder was known to be dead."""
    SharedTime(setup.time)
    assert LONG_LEASE_S > 2 * BOUND_S
    return replace(setup, lease_s=LONG_LEASE_S, latency_ms=5)


def finish(survivor: WorkerProcess, callers: Callers) -> None:
    """Whatever the dead one left unanswered is asked for again, and everything ends."""
    callers.ask(survivor, count=0)
    callers.until_answered(survivor)
    survivor.order("end")
    survivor.until_said("ended")
    survivor.stop()
    callers.hear(survivor)


def test_the_survivor_takes_over_from_the_killed_i14(long_leased: Setup) -> None:
    """The victim dies with a send of its own in its hands: accepted, and nobody knows."""
    doomed = replace(long_leased, traps=(Trap("P5", to=DOOMED),))
    callers = Callers()
    with lives() as start:
        victim, survivor = start(doomed).ready(), start(long_leased).ready()
        callers.ask(victim)
        callers.ask(survivor)
        until(lambda: ledger_bytes(victim) > 0, lambda: "the load is not sent")
        victim.order("send", "doomed", DOOMED)
        assert victim.until_dead() == -signal.SIGKILL
        callers.hear(victim)
        finish(survivor, callers)

    books = read_books(long_leased.store, long_leased.ledger)
    assert lost(books, callers.promised) == []
    assert contradictions(books) == []
    record = books.of("doomed")
    first, *others = record.attempts
    assert (first.status, first.window) == ("interrupted", "W1")
    # The survivor, and nobody else; on a slow machine it may need more than one attempt.
    [heir] = {attempt.holder for attempt in others}
    assert heir != first.holder
    assert others[-1].status == "done"
    assert len(record.accepted) >= 2
    assert record.delivery.maybe_duplicate
    assert books.duplicates <= SLOTS


def test_the_survivor_takes_over_whatever_the_moment_i14(long_leased: Setup) -> None:
    callers = Callers()
    with lives() as start:
        victim, survivor = start(long_leased).ready(), start(long_leased).ready()
        callers.ask(victim)
        callers.ask(survivor)
        kill_at_random(victim, Random(3))
        callers.hear(victim)
        finish(survivor, callers)

    books = read_books(long_leased.store, long_leased.ledger)
    assert callers.contradicted == []
    assert len(books.records) == 2 * LOAD
    assert lost(books, callers.promised) == []
    assert contradictions(books) == []
    assert books.duplicates <= SLOTS


def test_what_the_only_worker_held_goes_on_with_its_next_start(long_leased: Setup) -> None:
    """Hundreds in hand, more than a page of them; some with their mark, most without."""
    callers = Callers()
    with lives() as start:
        # All are stored before its first claim: it reads no further ahead once sends are slow.
        setup = replace(long_leased, latency_ms=10**6, claims_when_told=True)
        victim = start(setup).ready()
        callers.ask(victim, count=2 * LOAD)
        callers.until_heard(victim)
        victim.order("claim")
        until(
            lambda: read_books(long_leased.store, long_leased.ledger).states["in_flight"] > LOAD,
            lambda: "it does not take hundreds",
        )
        victim.kill()
        callers.hear(victim)
        finish(start(replace(long_leased, latency_ms=0)).ready(), callers)

    books = read_books(long_leased.store, long_leased.ledger)
    assert lost(books, callers.promised) == []
    assert contradictions(books) == []
    interrupted = [r for r in books.records.values() if r.attempts[0].status == "interrupted"]
    assert len(interrupted) > LOAD
    assert sum(record.delivery.maybe_duplicate for record in interrupted) <= SLOTS


def test_one_that_is_stopped_and_not_dead_keeps_what_it_holds(long_leased: Setup) -> None:
    """It still has its lock. Another works beside it, and looks after it many times."""
    with lives() as start:
        stopped, other = start(long_leased).ready(), start(long_leased).ready()
        stopped.order("hold", "held")
        stopped.until_said("holding")
        [holder] = holders_of(long_leased, "held")
        stopped.freeze_between_writes()
        until_beaten(long_leased, besides=holder, times=2)
        other.order("submit", "free", "ok@stub.test")
        until(
            lambda: read_books(long_leased.store, long_leased.ledger).states["delivered"] == 1,
            lambda: "the other does not work",
        )
        assert holders_of(long_leased, "held") == [holder]

        stopped.thaw()
        stopped.order("release")
        for process in (stopped, other):
            process.order("end")
            process.until_said("ended")
            process.stop()

    books = read_books(long_leased.store, long_leased.ledger)
    assert [(a.status, a.holder) for a in books.of("held").attempts] == [("done", holder)]
    assert books.late == []


def test_a_killed_worker_leaves_no_files_behind(long_leased: Setup) -> None:
    folder = long_leased.store.with_name("outbox.db.processes")
    with lives() as start:
        victim = start(long_leased).ready()
        # Its wake-up pipe is removed by whoever sends the next signal, at the end at the latest.
        before = {path.name for path in folder.iterdir() if path.suffix != ".wake"}
        heir = start(long_leased).ready()
        victim.kill()
        until(
            lambda: before.isdisjoint(path.name for path in folder.iterdir()),
            lambda: "its lock is still there",
        )
        heir.stop()

    assert not folder.exists()


def test_a_killed_worker_is_no_longer_counted(long_leased: Setup) -> None:
    """By whoever asks next, however fresh its last heartbeat is."""
    with lives() as start:
        victim = start(replace(long_leased, latency_ms=10**6)).ready()
        victim.order("submit", "held", "ok@stub.test")
        victim.until_said("acked")
        delivery_id = victim.acked["held"]
        alive, told = asyncio.run(ask(long_leased, delivery_id))
        victim.kill()
        left, told_then = asyncio.run(ask(long_leased, delivery_id))

    unserved = "No live worker serves 'mail': start one (homing worker --app MODULE:NAME)."
    assert len(alive) == 1
    assert left == []
    assert unserved not in told
    assert unserved in told_then


async def ask(setup: Setup, delivery_id: str) -> tuple[list[str], list[str]]:
    """The living workers, and what is said of the delivery."""
    async with Homing(SqliteStore(setup.store), provider="stub:", worker=False) as homing:
        return await homing.engine.live_workers(), await homing.explain(delivery_id)


def holders_of(setup: Setup, key: str) -> list[str | None]:
    books = read_books(setup.store, setup.ledger)
    return [r.delivery.holder for r in books.records.values() if r.delivery.key == key]


def until_beaten(setup: Setup, *, besides: str | None, times: int) -> None:
    """All other processes have written so many more heartbeats."""
    first = beats(setup)

    def have_beaten() -> bool:
        now = beats(setup)
        return all(now[name] >= first[name] + times for name in first if name != besides)

    until(have_beaten, lambda: "no heartbeat")


def beats(setup: Setup) -> dict[str, int]:
    workers = read_books(setup.store, setup.ledger).workers
    return {fact.key: int((fact.value or {}).get("beats") or 0) for fact in workers}

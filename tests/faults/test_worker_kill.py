"""SIGKILL of a worker process at any moment under load (I1, I7 to I10, I14, I16)."""

from __future__ import annotations

import signal
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from tests.faults.killing import LOAD, Callers, figures, kill_at_random, ledger_bytes
from tests.faults.processes import WorkerProcess, lives, until
from tests.faults.reckoning import contradictions, lost, read_books
from tests.faults.shared_time import SharedTime
from tests.faults.traps import Trap
from tests.faults.worker import Setup

KILLS = 4
SEED = 1
HOUR_S = 3600.0
BRISK_LEASE_S = 8.0
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
def brisk(setup: Setup) -> Setup:
    """In real time, with leases of seconds: nobody restarts anything and no clock is moved."""
    SharedTime(setup.time)
    return replace(setup, lease_s=BRISK_LEASE_S, latency_ms=5)


def finish(survivor: WorkerProcess, callers: Callers) -> None:
    """Whatever the dead one left unanswered is asked for again, and everything ends."""
    callers.ask(survivor, count=0)
    callers.until_answered(survivor)
    survivor.order("end")
    survivor.until_said("ended")
    survivor.stop()
    callers.hear(survivor)


def test_the_survivor_takes_over_from_the_killed_i14(brisk: Setup) -> None:
    """The victim dies with a send of its own in its hands: accepted, and nobody knows."""
    doomed = replace(brisk, traps=(Trap("P5", to=DOOMED),))
    callers = Callers()
    with lives() as start:
        victim, survivor = start(doomed).ready(), start(brisk).ready()
        callers.ask(victim)
        callers.ask(survivor)
        until(lambda: ledger_bytes(victim) > 0, lambda: "the load is not sent")
        victim.order("send", "doomed", DOOMED)
        assert victim.until_dead() == -signal.SIGKILL
        callers.hear(victim)
        finish(survivor, callers)

    books = read_books(brisk.store, brisk.ledger)
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


def test_the_survivor_takes_over_whatever_the_moment_i14(brisk: Setup) -> None:
    callers = Callers()
    with lives() as start:
        victim, survivor = start(brisk).ready(), start(brisk).ready()
        callers.ask(victim)
        callers.ask(survivor)
        kill_at_random(victim, Random(3))
        callers.hear(victim)
        finish(survivor, callers)

    books = read_books(brisk.store, brisk.ledger)
    assert callers.contradicted == []
    assert len(books.records) == 2 * LOAD
    assert lost(books, callers.promised) == []
    assert contradictions(books) == []
    assert books.duplicates <= SLOTS

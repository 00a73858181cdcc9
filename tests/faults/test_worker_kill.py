"""SIGKILL of a worker process at any moment under load (I1, I7 to I10, I14, I16)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from tests.faults.killing import LOAD, Callers, figures, kill_at_random
from tests.faults.processes import lives
from tests.faults.reckoning import contradictions, lost, read_books
from tests.faults.shared_time import SharedTime
from tests.faults.worker import Setup

KILLS = 4
SEED = 1
HOUR_S = 3600.0
BRISK_LEASE_S = 4.0
# Up to this many sends of a process are between mark and outcome at any moment (W1).
SLOTS = 64


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
        last = start(setup).ready()
        callers.ask(last, count=0)
        callers.until_answered(last)
        last.order("end")
        last.until_said("ended")
        last.stop()
        callers.hear(last)

    books = read_books(setup.store, setup.ledger)
    assert callers.contradicted == []
    assert len(callers.promised) == KILLS * LOAD
    assert len(books.records) == KILLS * LOAD
    assert lost(books, callers.promised) == []
    assert contradictions(books) == []
    assert books.duplicates <= KILLS * SLOTS
    with capsys.disabled():
        print(f"\n  {figures(books, KILLS)}")  # noqa: T201 - the figure is a product


def test_the_survivor_takes_over_from_the_killed_i14(setup: Setup) -> None:
    """In real time, with leases of seconds: nobody restarts anything and no clock is moved."""
    brisk = replace(setup, lease_s=BRISK_LEASE_S, latency_ms=5)
    SharedTime(setup.time)
    callers = Callers()
    with lives() as start:
        victim, survivor = start(brisk).ready(), start(brisk).ready()
        callers.ask(victim)
        callers.ask(survivor)
        kill_at_random(victim, Random(3))
        callers.hear(victim)
        callers.ask(survivor, count=0)
        callers.until_answered(survivor)
        survivor.order("end")
        survivor.until_said("ended")
        survivor.stop()
        callers.hear(survivor)

    books = read_books(setup.store, setup.ledger)
    assert lost(books, callers.promised) == []
    assert contradictions(books) == []
    assert any(a.status == "interrupted" for r in books.records.values() for a in r.attempts)
    assert books.duplicates <= SLOTS

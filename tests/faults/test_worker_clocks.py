"""Wall clocks a day apart, and steps of a day under load: 0 lost, 0 extra duplicates (I15)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.faults.killing import Callers, ledger_bytes
from tests.faults.processes import WorkerProcess, lives, until
from tests.faults.reckoning import Books, contradictions, lost, read_books
from tests.faults.shared_time import SharedTime
from tests.faults.traps import Trap
from tests.faults.worker import Setup

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
BRISK_LEASE_S = 8.0
KEY = "booking-42"

days_off = pytest.mark.parametrize("step_s", [DAY_S, -DAY_S], ids=["ahead", "behind"])


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    SharedTime(tmp_path / "time")
    return Setup(
        folder=tmp_path,
        store=tmp_path / "outbox.db",
        time=tmp_path / "time",
        lease_s=BRISK_LEASE_S,
        latency_ms=20,
    )


def with_time_of_its_own(setup: Setup) -> tuple[Setup, SharedTime]:
    path = setup.folder / "other-time"
    return replace(setup, time=path), SharedTime(path)


def assert_undisturbed(books: Books, callers: Callers) -> None:
    assert lost(books, callers.promised) == []
    assert contradictions(books) == []
    assert books.duplicates == 0
    assert books.late == []
    for record in books.records.values():
        assert not record.delivery.maybe_duplicate
        assert "interrupted" not in {attempt.status for attempt in record.attempts}


def end(*processes: WorkerProcess) -> None:
    for process in processes:
        process.order("end")
        process.until_said("ended")
    for process in processes:
        process.stop()


@days_off
def test_two_workers_whose_walls_are_a_day_apart(setup: Setup, step_s: float) -> None:
    """Each has a job in its hands while both claim: by the other's wall its lease is no lease."""
    other, time = with_time_of_its_own(setup)
    time.step_wall(step_s)
    callers = Callers()
    with lives() as start:
        both = {"normal": start(setup).ready(), "odd": start(other).ready()}
        for name, process in both.items():
            process.order("hold", name)
        for process in both.values():
            process.until_said("holding")
        for process in both.values():
            callers.ask(process)
        callers.until_heard(*both.values())
        until_sent(setup, besides=len(both))
        for process in both.values():
            process.order("release")
        end(*both.values())

    books = read_books(setup.store, setup.ledger)
    assert_undisturbed(books, callers)
    holders = {a.holder for record in books.records.values() for a in record.attempts}
    assert len(holders) == 2
    assert {a.holder for name in both for a in books.of(name).attempts} == holders


def until_sent(setup: Setup, *, besides: int) -> None:
    def is_sent() -> bool:
        states = read_books(setup.store, setup.ledger).states
        return states["pending"] == 0 and states["in_flight"] == besides

    until(is_sent, lambda: "the load is not sent")


@days_off
def test_a_wall_that_is_set_to_another_day_under_load(setup: Setup, step_s: float) -> None:
    other, time = with_time_of_its_own(setup)
    callers = Callers()
    with lives() as start:
        normal, odd = start(setup).ready(), start(other).ready()
        callers.ask(normal)
        callers.ask(odd)
        until(lambda: ledger_bytes(normal) > 5000, lambda: "the load is not sent")
        time.step_wall(step_s)
        callers.until_heard(normal, odd)
        end(odd, normal)

    assert_undisturbed(read_books(setup.store, setup.ledger), callers)


@days_off
def test_what_a_dead_worker_with_another_wall_held_is_taken_over(
    setup: Setup, step_s: float
) -> None:
    """Its lease seems to last until tomorrow, or to have ended yesterday: its beat decides."""
    other, time = with_time_of_its_own(setup)
    time.step_wall(step_s)
    with lives() as start:
        odd = start(replace(other, traps=(Trap("P4"),)))
        odd.order("submit", KEY, "ok@stub.test")
        assert odd.until_dead() == -signal.SIGKILL
        SharedTime(setup.time).let_pass(HOUR_S)
        heir = start(setup).ready()
        end(heir)

    books = read_books(setup.store, setup.ledger)
    assert len(books.of(KEY).accepted) == 1
    assert [attempt.window for attempt in books.of(KEY).attempts] == ["W1", None]
    assert contradictions(books) == []

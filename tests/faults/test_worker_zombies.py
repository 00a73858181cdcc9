"""A worker frozen beyond its lease, and thawed (P9): it is fenced, and what it knows is kept.

The zombie stops itself at the named point. An hour passes, another process takes over; then the
zombie is thawed in a world that went on without it.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.faults.processes import WorkerProcess, lives, until
from tests.faults.reckoning import Books, contradictions, read_books
from tests.faults.shared_time import SharedTime
from tests.faults.traps import Trap
from tests.faults.worker import Setup

KEY = "booking-42"
HOUR_S = 3600.0


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(folder=tmp_path, store=tmp_path / "outbox.db", time=tmp_path / "time")


def frozen_at(point: str) -> tuple[Trap, ...]:
    return (Trap(point, signal=signal.SIGSTOP),)


def end(process: WorkerProcess) -> None:
    process.order("end")
    process.until_said("ended")


def overtake(setup: Setup, point: str) -> Books:
    """The zombie sleeps at the point while another delivers; then it wakes and is stopped."""
    with lives() as start:
        zombie = start(replace(setup, traps=frozen_at(point)))
        zombie.order("submit", KEY, "ok@stub.test")
        zombie.until_frozen()
        SharedTime(setup.time).let_pass(HOUR_S)
        heir = start(setup).ready()
        end(heir)

        zombie.thaw()
        end(zombie)
        assert zombie.stop() == 0
        heir.stop()
    return read_books(setup.store, setup.ledger)


def test_one_that_wakes_before_its_mark_sends_nothing_i12(setup: Setup) -> None:
    books = overtake(setup, "P3")

    record = books.of(KEY)
    assert len(record.accepted) == 1
    assert not record.delivery.maybe_duplicate
    assert [attempt.status for attempt in record.attempts] == ["interrupted", "done"]
    assert books.late == []
    assert contradictions(books) == []


@pytest.mark.parametrize("point", ["P4", "P5", "P6"])
def test_one_that_had_its_mark_makes_one_flagged_duplicate_and_tells_i9_i11(
    setup: Setup, point: str
) -> None:
    """P4 is W3 itself: the pause lies between the last check and the send."""
    books = overtake(setup, point)

    record = books.of(KEY)
    assert len(record.accepted) == 2
    assert record.delivery.state == "delivered"
    assert record.delivery.maybe_duplicate
    assert [attempt.window for attempt in record.attempts] == ["W1", None]
    [late] = books.late
    assert late.key == f"{record.delivery.id}/1"
    assert late.value is not None
    assert late.value["status"] == "done"
    assert late.value["holder"] != record.attempts[-1].holder
    assert contradictions(books) == []


def test_on_hold_it_stays_uncertain_with_the_evidence_beside_it(setup: Setup) -> None:
    books = overtake(replace(setup, on_unknown="hold"), "P6")

    record = books.of(KEY)
    assert len(record.accepted) == 1
    assert record.delivery.failed_because == "uncertain"
    assert [(fact.value or {})["status"] for fact in books.late] == ["done"]
    assert contradictions(books) == []


def test_a_provider_that_can_be_asked_gets_no_second_one(setup: Setup) -> None:
    books = overtake(replace(setup, can_look=True), "P6")

    record = books.of(KEY)
    assert len(record.accepted) == 1
    assert record.delivery.state == "delivered"
    assert not record.delivery.maybe_duplicate


def test_one_that_nobody_overtook_finishes_its_own_send(setup: Setup) -> None:
    """The fence is the version, not the clock: asleep for an hour, but still the owner."""
    time = SharedTime(setup.time)
    with lives() as start:
        sleeper = start(replace(setup, traps=frozen_at("P6")))
        sleeper.order("submit", KEY, "ok@stub.test")
        sleeper.until_frozen()
        time.let_pass(HOUR_S)
        sleeper.thaw()
        end(sleeper)
        sleeper.stop()

    books = read_books(setup.store, setup.ledger)
    record = books.of(KEY)
    assert len(record.accepted) == 1
    assert [attempt.status for attempt in record.attempts] == ["done"]
    assert not record.delivery.maybe_duplicate


def test_an_owner_in_doubt_reads_a_late_outcome_before_its_own_commit_p8(setup: Setup) -> None:
    """The heir has taken over and prepared; then the zombie wakes and tells; then it goes on."""
    with lives() as start:
        zombie = start(replace(setup, traps=frozen_at("P6")))
        zombie.order("submit", KEY, "ok@stub.test")
        zombie.until_frozen()
        SharedTime(setup.time).let_pass(HOUR_S)
        heir = start(replace(setup, traps=frozen_at("P3")))
        heir.until_frozen()

        zombie.thaw()
        until(
            lambda: bool(read_books(setup.store, setup.ledger).late),
            lambda: "the late outcome is not recorded",
        )
        heir.thaw()
        end(heir)
        heir.stop()
        zombie.stop()

    books = read_books(setup.store, setup.ledger)
    record = books.of(KEY)
    assert len(record.accepted) == 1
    assert record.delivery.state == "delivered"

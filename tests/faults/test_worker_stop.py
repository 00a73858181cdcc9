"""A graceful stop under load: what runs is finished or given back, and nothing is interrupted."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from homing import Email, Homing
from tests.faults.killing import LOAD, Callers, ledger_bytes
from tests.faults.processes import BOUND_S, lives, until
from tests.faults.reckoning import Books, contradictions, lost, read_books
from tests.faults.shared_time import SharedTime
from tests.faults.worker import Setup


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    SharedTime(tmp_path / "time")
    return Setup(folder=tmp_path, store=tmp_path / "outbox.db", time=tmp_path / "time")


def assert_untroubled(books: Books) -> None:
    """Nobody crashed, nobody holds anything, and each was sent once or not at all."""
    assert books.states["in_flight"] == 0
    assert books.duplicates == 0
    assert books.workers == []  # its heartbeat went with it
    for record in books.records.values():
        assert record.delivery.crashes == 0
        assert not record.delivery.maybe_duplicate
        assert "interrupted" not in {attempt.status for attempt in record.attempts}
        assert bool(record.accepted) is (record.delivery.state == "delivered")


def test_sigterm_under_load_finishes_or_gives_back(setup: Setup) -> None:
    callers = Callers()
    with lives() as start:
        worker = start(replace(setup, latency_ms=50)).ready()
        callers.ask(worker)
        until(lambda: ledger_bytes(worker) > 0, lambda: "nothing is sent")

        assert worker.stop() == 0
        assert worker.lines[-1] == "stopped"
        callers.hear(worker)

        books = read_books(setup.store, setup.ledger)
        assert_untroubled(books)
        assert books.states["delivered"] > 0
        assert books.states["pending"] > 0  # it was in the middle of it
        assert lost(books, callers.promised) == []

        # No time passes: what was given back is free for the next one at once.
        heir = start(setup).ready()
        callers.ask(heir, count=0)
        callers.until_answered(heir)
        heir.order("end")
        heir.until_said("ended")
        heir.stop()
        callers.hear(heir)

    books = read_books(setup.store, setup.ledger)
    assert_untroubled(books)
    assert len(books.records) == LOAD
    assert contradictions(books) == []


def test_stopping_one_of_two_disturbs_nothing(setup: Setup) -> None:
    callers = Callers()
    with lives() as start:
        first = start(replace(setup, latency_ms=20)).ready()
        second = start(replace(setup, latency_ms=20)).ready()
        callers.ask(first)
        callers.ask(second)
        until(lambda: ledger_bytes(first) > 0, lambda: "nothing is sent")
        assert first.stop() == 0
        callers.hear(first)
        callers.ask(second, count=0)
        callers.until_answered(second)
        second.order("end")
        second.until_said("ended")
        assert second.stop() == 0
        callers.hear(second)

    books = read_books(setup.store, setup.ledger)
    assert_untroubled(books)
    assert lost(books, callers.promised) == []
    assert contradictions(books) == []


def test_homing_worker_itself_stops_gracefully(setup: Setup) -> None:
    """The program that people run, with the settings that they write."""
    store, ledger = f"sqlite:///{setup.store}", f"stub:?ledger={setup.ledger}&latency_ms=50"
    asyncio.run(accept_many(store))
    config = setup.folder / "homing.toml"
    config.write_text(f'store = "{store}"\nprovider = "{ledger}"\n')
    command = [sys.executable, "-m", "homing", "worker", "--config", str(config)]
    with subprocess.Popen(command, cwd=setup.folder, stderr=subprocess.DEVNULL) as worker:
        try:
            until(setup.ledger.exists, lambda: f"it sends nothing: {worker.poll()}")
            worker.terminate()
            code = worker.wait(BOUND_S)
        finally:
            worker.kill()

    assert code == 0
    books = read_books(setup.store, setup.ledger)
    assert_untroubled(books)
    assert books.states["delivered"] > 0
    assert books.states["pending"] > 0


async def accept_many(store: str) -> None:
    email = Email(to="ok@stub.test", subject="Booked", text="See you on Monday.")
    async with Homing(store, provider="stub:", worker=False) as homing:
        await homing.submit_many([email] * 1000)

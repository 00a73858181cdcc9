"""A graceful stop under load: what runs is finished or given back, and nothing is interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from homing import Email, Homing
from tests.faults.killing import LOAD, Callers, ledger_bytes
from tests.faults.processes import lives, until
from tests.faults.reckoning import Books, contradictions, lost, read_books
from tests.faults.shared_time import SharedTime
from tests.faults.traps import Trap
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
    """At its first send it has claimed far more than it can have begun; and callers go on."""
    stops_itself = Trap("P5", signal=signal.SIGTERM)
    callers = Callers()
    with lives() as start:
        worker = start(
            replace(setup, latency_ms=50, claims_when_told=True, traps=(stops_itself,))
        ).ready()
        callers.ask(worker)
        callers.until_heard(worker)
        worker.order("claim")
        callers.ask(worker)

        assert worker.until_dead() == 0
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
    assert len(books.records) == 2 * LOAD
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
    """The program that people run, with the settings that they write.

    Its provider's ledger is a pipe, which has room for a part of the load: nobody reads it
    before the worker was told to stop.
    """
    store, pipe = f"sqlite:///{setup.store}", setup.folder / "pipe"
    asyncio.run(accept_many(store))
    config = setup.folder / "homing.toml"
    config.write_text(f'store = "{store}"\nprovider = "stub:?ledger={pipe}&latency_ms=50"\n')
    command = [sys.executable, "-m", "homing", "worker", "--config", str(config)]
    with (
        reading_end(pipe) as ledger,
        subprocess.Popen(command, cwd=setup.folder, stderr=subprocess.DEVNULL) as worker,
    ):
        try:
            until(lambda: holds_something(ledger), lambda: f"it sends nothing: {worker.poll()}")
            worker.terminate()
            setup.ledger.write_bytes(read_until_dead(ledger, worker))
        finally:
            worker.kill()

    assert worker.returncode == 0
    books = read_books(setup.store, setup.ledger)
    assert_untroubled(books)
    assert books.states["delivered"] > 0
    assert books.states["pending"] > 0


@contextlib.contextmanager
def reading_end(pipe: Path) -> Iterator[int]:
    os.mkfifo(pipe)
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def holds_something(pipe: int) -> bool:
    readable, _, _ = select.select([pipe], [], [], 0)
    return bool(readable)


def read_until_dead(pipe: int, process: subprocess.Popen[bytes]) -> bytes:
    found = bytearray()

    def is_read() -> bool:
        is_dead = process.poll() is not None
        with contextlib.suppress(BlockingIOError):  # nothing there, and it may yet write
            while piece := os.read(pipe, 65536):
                found.extend(piece)
        return is_dead

    until(is_read, lambda: "it does not end")
    return bytes(found)


async def accept_many(store: str) -> None:
    email = Email(to="ok@stub.test", subject="Booked", text="See you on Monday.")
    async with Homing(store, provider="stub:", worker=False) as homing:
        await homing.submit_many([email] * 1000)

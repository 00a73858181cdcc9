"""The store refuses the mark of a finished send: the emergency journal has it (P8).

A worker stops itself right before it stores the outcome of an accepted send. The store is then
spoilt, the lease passes, and the worker goes on: nothing it knows may be lost, nothing sent twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from homing.stores.emergency import FileJournal
from tests.faults.disks import SmallDisk, small_disk
from tests.faults.processes import WorkerProcess, lives, until
from tests.faults.reckoning import Books, contradictions, read_books
from tests.faults.shared_time import SharedTime
from tests.faults.traps import Trap
from tests.faults.worker import Setup

KEY = "booking-42"
HOUR_S = 3600.0
BRISK_LEASE_S = 6.0  # beats, and so looks at the journal, come every second
DISK_BYTES = 8 * 1024 * 1024
TRAPS = (Trap("P6", signal=signal.SIGSTOP),)


class LockedStore:
    """A store whose write lock another process holds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def spoil(self, pid: int) -> None:
        del pid  # it is locked for all
        self._connection = sqlite3.connect(self._path, isolation_level=None)
        self._connection.execute("pragma wal_autocheckpoint = 0")
        self._connection.execute("begin immediate")

    def mend(self) -> None:
        if self._connection is not None:
            self._connection.execute("rollback")
            self._connection.close()
            self._connection = None


class FullStore:
    """A store whose disk is full."""

    def __init__(self, disk: SmallDisk) -> None:
        self._disk = disk
        self._is_full = False

    def spoil(self, pid: int) -> None:
        self._disk.pid = pid
        self._disk.fill()
        self._is_full = True

    def mend(self) -> None:
        if self._is_full:
            self._disk.free()
            self._is_full = False


class Spoilt:
    """A setup with the means to spoil its store."""

    def __init__(self, setup: Setup, means: LockedStore | FullStore) -> None:
        self.setup = setup
        self.spoil = means.spoil
        self.mend = means.mend


@pytest.fixture(params=["full", "locked"])
def spoilt(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Spoilt]:
    setup = Setup(
        folder=tmp_path,
        store=tmp_path / "outbox.db",
        time=tmp_path / "time",
        lease_s=BRISK_LEASE_S,
        busy_timeout_s=0.2,
        traps=TRAPS,
    )
    with contextlib.ExitStack() as stack:
        if request.param == "full":
            disk = stack.enter_context(small_disk(tmp_path / "disk", DISK_BYTES))
            setup = replace(setup, store=disk.folder / "outbox.db")
            means: LockedStore | FullStore = FullStore(disk)
        else:
            means = LockedStore(setup.store)
        stack.callback(means.mend)
        yield Spoilt(setup, means)


def journaled(setup: Setup) -> list[str]:
    journal = FileJournal(setup.emergency)
    return [change.delivery.id for change in asyncio.run(journal.entries())]


def refuse_the_mark(worker: WorkerProcess, spoilt: Spoilt) -> None:
    """The send is accepted; then the store takes nothing until the lease is long over."""
    worker.order("submit", KEY, "ok@stub.test")
    worker.until_frozen()
    spoilt.spoil(worker.pid)
    SharedTime(spoilt.setup.time).let_pass(HOUR_S)
    worker.thaw()
    until(lambda: bool(journaled(spoilt.setup)), lambda: "nothing was journaled")


def assert_delivered_once(books: Books) -> None:
    record = books.of(KEY)
    assert len(record.accepted) == 1
    assert record.delivery.state == "delivered"
    assert not record.delivery.maybe_duplicate
    assert [attempt.status for attempt in record.attempts] == ["done"]
    assert record.delivery.receipt is not None
    assert record.delivery.receipt.notification_id == record.accepted[0].notification_id
    assert contradictions(books) == []


def test_the_outcome_is_read_back_at_the_next_start_p8(spoilt: Spoilt) -> None:
    setup = spoilt.setup
    with lives() as start:
        worker = start(setup)
        refuse_the_mark(worker, spoilt)
        worker.kill()
        spoilt.mend()
        before = read_books(setup.store, setup.ledger).of(KEY).delivery
        assert (before.state, before.committing) == ("in_flight", True)

        heir = start(replace(setup, traps=())).ready()
        heir.order("end")
        heir.until_said("ended")
        heir.stop()

    assert_delivered_once(read_books(setup.store, setup.ledger))
    assert journaled(setup) == []


def test_the_outcome_is_read_back_when_the_store_answers_again_p8(spoilt: Spoilt) -> None:
    setup = spoilt.setup
    with lives() as start:
        worker = start(setup)
        refuse_the_mark(worker, spoilt)
        spoilt.mend()
        worker.order("end")
        worker.until_said("ended")
        worker.stop()

    assert_delivered_once(read_books(setup.store, setup.ledger))
    assert journaled(setup) == []


def test_work_that_goes_on_does_not_overtake_the_journal_p8(spoilt: Spoilt) -> None:
    """The very next claim finds the ended lease: what the journal knows must come first."""
    setup = spoilt.setup
    with lives() as start:
        worker = start(setup)
        refuse_the_mark(worker, spoilt)
        spoilt.mend()
        worker.order("submit", "next", "ok@stub.test")
        worker.until_said("acked next")
        worker.order("end")
        worker.until_said("ended")
        worker.stop()

    assert_delivered_once(read_books(setup.store, setup.ledger))


def test_another_process_does_not_overtake_the_journal_either_p8(spoilt: Spoilt) -> None:
    """Who journaled it is dead, and who takes over was there all the time."""
    setup = spoilt.setup
    with lives() as start:
        worker = start(setup)
        worker.ready()
        heir = start(replace(setup, traps=())).ready()
        heir.freeze_between_writes()
        refuse_the_mark(worker, spoilt)
        worker.kill()
        spoilt.mend()
        heir.thaw()
        heir.order("end")
        heir.until_said("ended")
        heir.stop()

    record = read_books(setup.store, setup.ledger).of(KEY)
    assert len(record.accepted) == 1
    assert record.delivery.state == "delivered"
    assert not record.delivery.maybe_duplicate
    assert journaled(setup) == []

"""A disk that fills up under a working process, and has room again (I1, I8, I9)."""

from __future__ import annotations

from pathlib import Path

from tests.faults.disks import SmallMount, small_disk
from tests.faults.killing import Callers, ledger_bytes
from tests.faults.processes import WorkerProcess, lives, until
from tests.faults.reckoning import contradictions, lost, read_books
from tests.faults.shared_time import SharedTime
from tests.faults.worker import Setup

DISK_BYTES = 16 * 1024 * 1024


def test_intake_refuses_clearly_and_everything_goes_on_with_room(tmp_path: Path) -> None:
    callers = Callers()
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk, lives() as start:
        setup = Setup(
            folder=tmp_path,
            store=disk.folder / "outbox.db",
            time=tmp_path / "time",
            latency_ms=20,
        )
        SharedTime(setup.time)
        worker = start(setup).ready()
        disk.pid = worker.pid
        callers.ask(worker)
        until(lambda: ledger_bytes(worker) > 2000, lambda: "the load is not sent")
        worker.freeze()  # else it would race for the last block
        disk.fill()
        worker.thaw()
        while not refusals(worker):  # its log may have some room of its own
            callers.ask(worker)
            callers.until_told(worker)
        disk.free()
        callers.ask(worker, count=0)
        callers.until_answered(worker)
        worker.order("end")
        worker.until_said("ended")
        assert worker.stop() == 0
        callers.hear(worker)
        books = read_books(setup.store, setup.ledger)

    if isinstance(disk, SmallMount):  # a limit on files reads as an I/O error
        assert refusals(worker) == {"StoreFull"}
    assert callers.contradicted == []
    assert lost(books, callers.promised) == []
    assert contradictions(books) == []
    assert books.duplicates == 0  # no lease ended meanwhile: every outcome found its place


def refusals(worker: WorkerProcess) -> set[str]:
    return {line.split()[2] for line in worker.lines if line.startswith("refused ")}

"""A payload that kills whoever works on it ends as poison, and takes nobody with it (I16)."""

from __future__ import annotations

from pathlib import Path

from tests.faults.processes import lives
from tests.faults.reckoning import contradictions, lost, read_books
from tests.faults.shared_time import SharedTime
from tests.faults.worker import EXIT_OF_A_KILLER, Setup

HOUR_S = 3600.0
OTHERS = 40
# Five while it is tried alone. Before that it is tried in ever smaller batches, and of the first
# death it is not known which of those in hand had begun.
DEATHS = 3 + 5


def test_the_killer_ends_as_poison_and_the_others_go_on(tmp_path: Path) -> None:
    setup = Setup(folder=tmp_path, store=tmp_path / "outbox.db", time=tmp_path / "time")
    time, promised, deaths = SharedTime(setup.time), dict[str, str](), 0
    with lives() as start:
        worker = start(setup).ready()
        for number in range(OTHERS):
            worker.order("submit", f"mail-{number}", "ok@stub.test")
            worker.order("job", f"job-{number}", "kill" if number == OTHERS // 2 else "work")
        worker.order("end")
        while not worker.says("ended"):
            assert worker.until_dead() == EXIT_OF_A_KILLER
            promised |= worker.acked
            deaths += 1
            time.let_pass(HOUR_S)
            worker = start(setup).ready()
            worker.order("end")
        worker.stop()

    books = read_books(setup.store, setup.ledger)
    killer = books.of(f"job-{OTHERS // 2}").delivery
    assert (killer.state, killer.failed_because) == ("failed", "poison")
    assert deaths == DEATHS
    assert lost(books, promised) == []
    assert books.states == {"delivered": len(books.records) - 1, "failed": 1}
    assert contradictions(books) == []

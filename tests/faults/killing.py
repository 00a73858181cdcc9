"""A load that goes on over many lives: what was promised, and what was asked for in vain.

The next life asks again for every key that was never answered, as a careful caller does.
"""

from __future__ import annotations

from random import Random

from tests.faults.processes import WorkerProcess, until
from tests.faults.reckoning import Books

LOAD = 250


class Callers:
    """All callers of all lives, with what each was told."""

    def __init__(self) -> None:
        self.promised: dict[str, str] = {}
        self._asked = 0
        self._calls = 0
        self.contradicted: list[str] = []

    def ask(self, process: WorkerProcess, count: int = LOAD) -> None:
        """New keys, and the old ones that nobody answered for."""
        for number in range(self._asked):
            if f"k-{number}" not in self.promised:
                process.order("load", "k", number, 1)
                self._calls += 1
        process.order("load", "k", self._asked, count)
        self._asked += count
        self._calls += count

    def hear(self, process: WorkerProcess) -> None:
        """What it answered; of one that is killed, call it when it is dead."""
        for key, delivery_id in process.acked.items():
            if self.promised.setdefault(key, delivery_id) != delivery_id:
                self.contradicted.append(f"{key} is {delivery_id} and {self.promised[key]} (I3)")

    def until_heard(self, *processes: WorkerProcess) -> None:
        """All have answered all that they were asked, and none has died of it."""
        until(
            lambda: sum(len(process.acked) for process in processes) >= self._asked,
            lambda: f"not all of {self._asked} are answered",
        )
        for process in processes:
            self.hear(process)

    def until_told(self, process: WorkerProcess) -> None:
        """The one process of all these calls has answered each, be it by a refusal."""
        until(
            lambda: (
                sum(line.startswith(("acked ", "refused ")) for line in process.lines)
                >= self._calls
            ),
            lambda: f"not all of {self._calls} calls are answered",
        )
        self.hear(process)

    def until_answered(self, process: WorkerProcess) -> None:
        """Every key has an answer in the end."""
        wanted = {f"k-{number}" for number in range(self._asked)} - set(self.promised)
        until(lambda: wanted <= set(process.acked), lambda: f"no answer for {wanted}")


def kill_at_random(process: WorkerProcess, random: Random) -> None:
    """Somewhere in the first seconds of a load: while it is taken in, or while it is sent."""
    if random.random() < 0.3:
        process.until_said("acked", times=random.randint(1, LOAD // 2))
    else:
        wanted = ledger_bytes(process) + random.randint(1, 30_000)
        until(lambda: ledger_bytes(process) >= wanted, lambda: "the load is not sent")
    process.kill()


def ledger_bytes(process: WorkerProcess) -> int:
    ledger = process.setup.ledger
    return ledger.stat().st_size if ledger.exists() else 0


def figures(books: Books, kills: int) -> str:
    """One line for people and for the benchmarks."""
    flagged = sum(record.delivery.maybe_duplicate for record in books.records.values())
    return (
        f"kills={kills} deliveries={len(books.records)} duplicates={books.duplicates}"
        f" flagged={flagged} duplicates_per_kill={books.duplicates / max(kills, 1):.2f}"
    )

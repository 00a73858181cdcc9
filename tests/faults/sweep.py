"""The long proof: workers are killed, frozen and stopped for minutes, then ledgers are compared.

    python -m tests.faults.sweep --minutes 10 [--seed N] [--store sqlite|jsonl|postgresql]

Two workers share one store under load. Again and again one of them is killed (at a random moment
or at a named point), frozen beyond its lease and thawed, or stopped gracefully;
a worker that has ended is replaced. The last line is the result; the exit code is 1
if anything was lost or is not explained.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from msgspec.structs import replace

from tests import servers
from tests.faults.killing import Callers, figures, kill_at_random
from tests.faults.processes import WorkerProcess, lives, until
from tests.faults.reckoning import contradictions, lost, read_books
from tests.faults.shared_time import SharedTime
from tests.faults.traps import Trap
from tests.faults.worker import Setup

LEASE_S = 4.0
POINTS = ("P0", "P1", "P2", "P3", "P4", "P5", "P6", "P7")
SHOWN = 20


class Sweep:
    def __init__(
        self,
        folder: Path,
        seed: int,
        start: Callable[[Setup], WorkerProcess],
        store_url: str | None = None,
        file: str = "outbox.db",
    ) -> None:
        self._random = Random(seed)
        self._start = start
        self._folder = folder
        self._callers = Callers()
        self.faults: Counter[str] = Counter()
        self._setup = Setup(
            folder=folder,
            store=folder / file,
            store_url=store_url,
            time=folder / "time",
            lease_s=LEASE_S,
        )
        SharedTime(self._setup.time)
        self._faults_to_draw = (
            self._kill,
            self._kill,
            self._trap,
            self._trap,
            self._freeze,
            self._stop,
        )
        self._workers = [self._fresh(), self._fresh()]

    def step(self) -> None:
        """One fault, under load, with a whole worker beside it."""
        place = self._random.randrange(2)
        fault = self._random.choice(self._faults_to_draw)
        for worker in self._workers:
            self._callers.hear(worker)
        self._callers.ask(self._workers[1 - place])
        fault(place)
        self.faults[fault.__name__.strip("_")] += 1

    def finish(self) -> tuple[str, bool]:
        """No more faults: everything ends; then the books are read."""
        for worker in self._workers:
            self._note_stop(worker, worker.stop())
        last = self._start(self._setup).ready()
        self._callers.ask(last, count=0)
        self._callers.until_answered(last)
        last.order("end")
        last.until_said("ended")
        self._note_stop(last, last.stop())
        books = read_books(self._setup.store_url or self._setup.store, self._setup.ledger)
        wrong = [*self._callers.contradicted, *contradictions(books)]
        for line in wrong[:SHOWN]:
            say(line)
        missing = lost(books, self._callers.promised)
        kills = self.faults["kill"] + self.faults["trap"]
        counts = " ".join(f"{name}={number}" for name, number in sorted(self.faults.items()))
        line = f"{counts} {figures(books, kills)} unexplained={len(wrong)} lost={len(missing)}"
        return line, not (wrong or missing)

    def _fresh(self, *traps: Trap) -> WorkerProcess:
        latency_ms = self._random.choice((0, 5, 20))
        return self._start(replace(self._setup, latency_ms=latency_ms, traps=traps)).ready()

    def _kill(self, place: int) -> None:
        self._callers.ask(self._workers[place])
        kill_at_random(self._workers[place], self._random)
        self._replace(place)

    def _trap(self, place: int) -> None:
        """A worker that dies at a named point takes the place of one that stops."""
        self._note_stop(self._workers[place], self._workers[place].stop())
        trap = Trap(self._random.choice(POINTS), nth=self._random.randint(1, 40))
        victim = self._fresh(trap)
        self._workers[place] = victim
        while victim.is_alive:
            wanted = len(victim.acked) + 50
            self._callers.ask(victim, count=50)
            self._until_answered_or_dead(victim, wanted)
            self._callers.hear(victim)
        victim.until_dead()
        self._replace(place)

    def _until_answered_or_dead(self, victim: WorkerProcess, wanted: int) -> None:
        until(
            lambda: not victim.is_alive or len(victim.acked) >= wanted,
            lambda: "the victim does nothing",
        )

    def _freeze(self, place: int) -> None:
        """Beyond its lease; it may hold the write lock, and then the other one waits too."""
        self._workers[place].freeze()
        thaw_at_s = time.monotonic() + LEASE_S * 1.5
        until(lambda: time.monotonic() > thaw_at_s, lambda: "time stands still")
        self._workers[place].thaw()

    def _stop(self, place: int) -> None:
        self._callers.ask(self._workers[place])
        self._note_stop(self._workers[place], self._workers[place].stop())
        self._workers[place] = self._fresh()

    def _replace(self, place: int) -> None:
        self._callers.hear(self._workers[place])
        self._workers[place] = self._fresh()

    def _note_stop(self, worker: WorkerProcess, code: int) -> None:
        self._callers.hear(worker)
        if code != 0:
            self._callers.contradicted.append(f"a graceful stop ended with {code}")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", choices=("sqlite", "jsonl", "postgresql"), default="sqlite")
    chosen = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        start = stack.enter_context(lives())
        url = None
        if chosen.store == "postgresql":
            url = stack.enter_context(servers.postgres()).url
        end_s = time.monotonic() + chosen.minutes * 60
        file = "queue.jsonl" if chosen.store == "jsonl" else "outbox.db"
        sweep = Sweep(Path(folder), chosen.seed, start, url, file)
        while time.monotonic() < end_s:
            sweep.step()
            say(" ".join(f"{name}={number}" for name, number in sorted(sweep.faults.items())))
        line, is_proved = sweep.finish()
    say(line)
    return 0 if is_proved else 1


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.simulation.simulator 100-119`: run seeds, show progress, judge.

The last line on standard output sums up; everything else goes to standard error. The exit code
is 1 when an invariant was broken. `--seed N` tells one seed word by word.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import get_args

from tests.simulation.simulator.findings import Result, last_line, tables
from tests.simulation.simulator.options import FAMILIES, Focus, StoreName, draw
from tests.simulation.simulator.route_kinds import ROUTE_KINDS
from tests.simulation.simulator.runs import Job, run_jobs, run_world

HASH_SEED = "0"


def main(words: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(words)
    focus = Focus(options.deliveries, tuple(options.faults), tuple(options.routes), options.store)
    if options.seed is not None:
        return _tell(options.seed, focus)
    jobs = [Job(seed, focus, options.twice) for seed in _seeds(options.seeds)]
    started_s = time.perf_counter()
    results: list[Result] = []
    for result in run_jobs(jobs, options.jobs):
        results.append(result)
        _say(_progress(result, results, time.perf_counter() - started_s))
        if result.breaches:
            _say("\n".join(_indictment(result, focus)))
            if options.first:
                break
    _say("\n".join(tables(results)))
    sys.stdout.write(last_line(results) + "\n")
    return 1 if any(result.breaches for result in results) else 0


def _tell(seed: int, focus: Focus) -> int:
    options = draw(seed, focus)
    _say(str(options))
    result = run_world(options, _write)
    for breach in result.breaches:
        _say(str(breach))
    _say(f"trace {result.digest}")
    sys.stdout.write(last_line([result]) + "\n")
    return 1 if result.breaches else 0


def _progress(result: Result, results: Sequence[Result], elapsed_s: float) -> str:
    deliveries = sum(r.deliveries for r in results)
    verdict = f"{len(result.breaches)} VIOLATIONS" if result.breaches else "ok"
    return (
        f"seed {result.seed}: {result.deliveries} deliveries, {result.faults.total()} faults,"
        f" {result.duplicates} duplicates, {result.virtual_s / 3600:.1f} h, {verdict}"
        f" ({deliveries / elapsed_s:.0f} deliveries/s)"
    )


def _indictment(result: Result, focus: Focus) -> Iterator[str]:
    yield f"  {result.options}"
    for breach in result.breaches:
        yield f"  {breach}"
    yield f"  the last events about {result.breaches[0].subject}:"
    for line in result.story:
        yield f"    {line}"
    yield f"  replay: python -m tests.simulation.simulator --seed {result.seed}{_words(focus)}"


def _words(focus: Focus) -> str:
    """The focus as it is asked for."""
    words = f" --deliveries {focus.deliveries}" if focus.deliveries else ""
    words += f" --faults {','.join(focus.families)}" if focus.families else ""
    words += f" --routes {','.join(focus.routes)}" if focus.routes else ""
    return words + (f" --store {focus.store}" if focus.store else "")


def _seeds(text: str) -> list[int]:
    first, dash, last = text.partition("-")
    return list(range(int(first), int(last if dash else first) + 1))


def _words_of(known: Collection[str]) -> Callable[[str], list[str]]:
    def words(text: str) -> list[str]:
        unknown = set(text.split(",")).difference(known)
        if unknown:
            problem = f"{', '.join(sorted(unknown))}: choose from {', '.join(sorted(known))}"
            raise argparse.ArgumentTypeError(problem)
        return text.split(",")

    return words


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.simulator", description=__doc__
    )
    parser.add_argument("seeds", nargs="?", default="0-19", help="a range such as 100-119")
    parser.add_argument("--seed", type=int, help="one seed, with every event")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--deliveries", type=int, help="how many each seed asks for")
    parser.add_argument(
        "--faults", type=_words_of(FAMILIES), default=(), help="only these families"
    )
    parser.add_argument(
        "--routes", type=_words_of(ROUTE_KINDS), default=(), help="only these routes"
    )
    parser.add_argument("--store", choices=get_args(StoreName), help="only on this store")
    parser.add_argument("--twice", action="store_true", help="run each seed twice and compare")
    parser.add_argument("--first", action="store_true", help="end at the first violation")
    return parser


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def _write(text: str) -> None:
    sys.stdout.write(text + "\n")


def _with_fixed_hashes() -> None:
    """Sets of texts iterate by the hash seed; a run must not depend on it."""
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        words = [sys.executable, "-m", "tests.simulation.simulator", *sys.argv[1:]]
        os.execve(sys.executable, words, os.environ | {"PYTHONHASHSEED": HASH_SEED})


if __name__ == "__main__":
    _with_fixed_hashes()
    sys.exit(main())

"""`python -m benchmarks`: progress on stderr, the table on stdout, figures in latest.json."""

import argparse
import os
import sys
import time
from collections.abc import Sequence

from benchmarks import harness, results, table
from benchmarks.contest.plan import Plan
from benchmarks.measures import MEASURES
from benchmarks.registry import CONTESTANTS, Contestant

FULL_ROUNDS, QUICK_ROUNDS = 3, 1
NAMES = tuple(measure.name for measure in MEASURES)


def arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round, under 3 minutes")
    parser.add_argument("--rounds", type=int, help=f"repetitions (default {FULL_ROUNDS})")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="measures or contestants to run, by name or its beginning; may be repeated",
    )
    parser.add_argument("--no-peers", action="store_true", help="Homing alone")
    parser.add_argument("--list", action="store_true", help="show the names and end")
    return parser.parse_args(given)


def chosen(
    only: Sequence[str], *, peers: bool, quick: bool
) -> tuple[list[Contestant], tuple[str, ...]]:
    """Which contestants run, and which measures they are asked for."""
    people = {one.name for one in CONTESTANTS if one.name.startswith(tuple(only))} if only else ()
    measures = tuple(name for name in NAMES if not only or name.startswith(tuple(only)))
    if only and not (people or measures):
        raise SystemExit(f"nothing is called {', '.join(only)}; see --list")
    measures = measures or NAMES
    contestants = [
        one
        for one in CONTESTANTS
        if (peers or not one.is_peer)
        and (one.in_quick or only or not quick)
        and (not people or one.name in people)
        and not set(one.measures).isdisjoint(measures)
    ]
    return contestants, measures


def plan(measures: tuple[str, ...], *, quick: bool) -> Plan:
    if not quick:
        return Plan(folder="", counts="", measures=measures)
    return Plan(
        folder="",
        counts="",
        measures=measures,
        budget_s=0.7,
        latency_s=3.0,
        mails=1_500,
        rows=(1_000, 50_000),
        kills=2,
        idle_s=5.0,
        seeds="0-4",
    )


def main() -> int:
    asked = arguments(sys.argv[1:])
    contestants, measures = chosen(asked.only, peers=not asked.no_peers, quick=asked.quick)
    if asked.list:
        print("measures:   ", *NAMES)
        print("contestants:", *dict.fromkeys(one.name for one in CONTESTANTS))
        return 0
    rounds = asked.rounds or (QUICK_ROUNDS if asked.quick else FULL_ROUNDS)
    began_s = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - began_s:4.0f} s] {line}", file=sys.stderr, flush=True)

    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    say(f"{len(contestants)} contestants, {rounds} rounds, {cores} cores")
    if load > cores / 2:
        say(f"the machine is busy (load {load:.1f}): expect low and unsteady figures")
    records = harness.run(contestants, plan(measures, quick=asked.quick), rounds, say)
    found = results.figures(records, measures)
    results.write(found)
    print(*table.lines(found), sep="\n")
    say(f"written to {results.LATEST.relative_to(harness.ROOT)}")
    return int(any(record.failed and not record.contestant.is_peer for record in records))


if __name__ == "__main__":
    raise SystemExit(main())

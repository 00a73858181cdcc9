"""How long the simulator takes for twenty seeds."""

import subprocess
import sys
import time

from benchmarks.contest.plan import Plan, report

TWENTY = 20


def main() -> None:
    seeds = Plan.from_environment().seeds
    command = [sys.executable, "-m", "tests.simulation.simulator", seeds]
    began_s = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took_s = time.perf_counter() - began_s
    summary = done.stdout.strip().splitlines()[-1:]
    if done.returncode or not summary:
        raise SystemExit((done.stderr or done.stdout)[-500:])
    first, _, last = seeds.partition("-")
    number = int(last) - int(first) + 1
    report({"simulator": took_s * TWENTY / number}, {"seeds": seeds, "summary": summary[0]})


if __name__ == "__main__":
    main()

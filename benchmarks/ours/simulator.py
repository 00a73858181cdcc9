"""How many deliveries a second the simulator carries through its faults."""

import re
import subprocess
import sys
import time

from benchmarks.contest.plan import Plan, report


def main() -> None:
    seeds = Plan.from_environment().seeds
    command = [sys.executable, "-m", "tests.simulation.simulator", seeds]
    began_s = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took_s = time.perf_counter() - began_s
    summary = done.stdout.strip().splitlines()[-1:]
    found = re.search(r"deliveries=(\d+)", summary[0]) if summary else None
    if done.returncode or found is None:
        raise SystemExit((done.stderr or done.stdout)[-500:])
    report({"simulator": int(found.group(1)) / took_s}, {"seeds": seeds, "summary": summary[0]})


if __name__ == "__main__":
    main()

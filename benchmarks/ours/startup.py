"""How long `import homing` and `homing --help` take, in fresh interpreters with warm caches."""

import os
import statistics
import subprocess
import sys
import time

from benchmarks.contest.plan import report

TIMES = 7
# With warm caches, whatever this machine thinks of writing them.
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
PROGRAM = "import time; t = time.perf_counter(); import homing; print(time.perf_counter() - t)"


def import_ms() -> float:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env=ENVIRONMENT,
    )
    return float(done.stdout) * 1000


def help_ms() -> float:
    began_s = time.perf_counter()
    command = [sys.executable, "-m", "homing", "--help"]
    subprocess.run(command, capture_output=True, check=True, env=ENVIRONMENT)
    return (time.perf_counter() - began_s) * 1000


def main() -> None:
    values = {}
    for name, measure in (("import_time", import_ms), ("help_time", help_ms)):
        measure()  # writes the .pyc files
        values[name] = statistics.median(measure() for _ in range(TIMES))
    report(values, {})


if __name__ == "__main__":
    main()

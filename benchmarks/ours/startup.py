"""How long `import homing` takes, in a fresh interpreter with warm caches."""

import statistics
import subprocess
import sys

from benchmarks.contest.plan import report

TIMES = 7
PROGRAM = "import time; t = time.perf_counter(); import homing; print(time.perf_counter() - t)"


def import_ms() -> float:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    return float(done.stdout) * 1000


def main() -> None:
    import_ms()  # writes the .pyc files
    report({"import_time": statistics.median(import_ms() for _ in range(TIMES))}, {})


if __name__ == "__main__":
    main()

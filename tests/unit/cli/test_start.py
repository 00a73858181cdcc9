"""`homing --help` is quick: at most 400 ms, and nothing is loaded that it does not need."""

import os
import subprocess
import sys

HEAVY = {
    "email_validator",
    "icalendar",
    "jinja2",
    "opentelemetry",
    "prometheus_client",
    "sentry_sdk",
    "sqlite3",
    "starlette",
    "structlog",
    "uvicorn",
}
SCRIPT = """
import sys
sys.argv = ["homing", "--help"]
from homing.cli import main
try:
    main()
finally:
    print(sorted(HEAVY & sys.modules.keys()), file=sys.stderr)
"""


def test_help_loads_nothing_heavy() -> None:
    script = f"HEAVY = {HEAVY!r}\n{SCRIPT}"

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stderr == "[]\n"
    assert "serve" in done.stdout


def test_help_takes_at_most_400_ms() -> None:
    def cpu_s() -> float:
        command = [sys.executable, "-m", "homing", "--help"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return usage.ru_utime + usage.ru_stime

    # The processor's time, not the wall's: others may be busy on this machine.
    assert min(cpu_s() for _ in range(3)) <= 0.4

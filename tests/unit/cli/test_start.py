"""`homing --help` is quick: nothing is loaded that it does not need, and no plugin."""

import subprocess
import sys

HEAVY = {
    "email_validator",
    *(f"homing_systems.{name}" for name in ("bookings", "events", "mail", "reviews", "verdicts")),
    "homing.plugins.value",
    "homing.plugins.default",
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

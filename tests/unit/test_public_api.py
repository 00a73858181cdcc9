"""What `import homing` offers, and what it does not drag along."""

from __future__ import annotations

import json
import subprocess
import sys

import homing

OFFERED = [
    "Assignment",
    "Attachment",
    "Attempt",
    "Delivery",
    "Email",
    "Event",
    "Exponential",
    "Failure",
    "FullJitter",
    "Homing",
    "HomingError",
    "IdempotencyConflict",
    "InvalidRequest",
    "Invitation",
    "Job",
    "Ladder",
    "NotAllowed",
    "NotFound",
    "Receipt",
    "Refused",
    "Retry",
    "RetryAfter",
    "Route",
    "SettingsError",
    "StoreError",
    "TerminalError",
    "Ticket",
]
# Each belongs to an extra, to the command line, or to one kind of store or provider.
LEFT_OUT = {
    *("typer", "click", "rich", "starlette", "uvicorn", "jinja2", "psycopg", "redis", "httpx2"),
    *("pydantic", "pydantic_settings", "structlog", "sqlite3", "email", "smtplib", "icalendar"),
    *("email_validator", "opentelemetry", "prometheus_client", "sentry_sdk", "multiprocessing"),
}
FEW_MODULES = 250


def modules_of(statement: str) -> list[str]:
    """What a fresh process has loaded after one statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    told = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    names: list[str] = json.loads(told.stdout)
    return names


def test_the_public_names_are_these() -> None:
    assert homing.__all__ == OFFERED
    assert [name for name in OFFERED if not hasattr(homing, name)] == []


def test_the_import_is_light() -> None:
    bare, loaded = set(modules_of("pass")), set(modules_of("import homing"))

    assert {name.partition(".")[0] for name in loaded} & LEFT_OUT == set()
    assert len(loaded - bare) < FEW_MODULES

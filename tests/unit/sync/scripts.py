"""Programs of a user, run as processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from homing.providers.stub import Entry, read_ledger

BOUND_S = 60.0
# Python 3.12 and later warn of every fork in a process with threads.
FORKS_ARE_MEANT = "ignore:This process:DeprecationWarning"
START = """
import asyncio, multiprocessing, os, sqlite3, sys, threading, time
from pathlib import Path
from homing import Email, Homing, HomingError, NotAllowed
homing = Homing("sqlite:///app.db", provider="stub:?ledger=sent&latency_ms={latency_ms}",
                sender="shop@example.org", worker={worker})

def mail(name):
    return Email(to=f"{{name}}@example.org", subject="Hello", text=name)

def until(condition):
    deadline = time.monotonic() + 50
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)

def sent():
    return Path("sent").read_text() if os.path.exists("sent") else ""

def ended(pid):
    _, status = os.waitpid(pid, 0)
    assert status == 0, status
"""


def run(
    folder: Path,
    script: str,
    *,
    worker: bool = True,
    latency_ms: int = 0,
    code: int = 0,
    logs: str = "",
) -> str:
    """Run it to its end in this folder; what it printed. `logs` is its one log line's event."""
    start = START.format(worker=worker, latency_ms=latency_ms)
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-W", FORKS_ARE_MEANT, "-c", start + script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    logged = [line.partition(" ")[0] for line in ended.stderr.splitlines()]
    assert (ended.returncode, " ".join(logged)) == (code, logs), ended.stderr
    return ended.stdout


def sent(folder: Path) -> list[Entry]:
    return read_ledger(folder / "sent")


def recipients(folder: Path) -> list[str]:
    """Who got mail, each as often as it was sent."""
    return sorted(address.split("@")[0] for entry in sent(folder) for address in entry.recipients)

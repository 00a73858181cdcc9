"""Runs the contestants in turn, round by round, so that a slow minute of the machine hits all."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.contest.plan import Plan
from benchmarks.loopback import Loopback
from benchmarks.registry import Contestant

ROOT = Path(__file__).parents[1]
MEMORY = Path("/dev/shm")
PEERS_PYTHON = ROOT / ".venv-peers/bin/python"

Say = Callable[[str], None]


@dataclass(slots=True)
class Record:
    """What one contestant answered, round by round; or why it did not run."""

    contestant: Contestant
    samples: dict[str, list[float]] = field(default_factory=dict)
    config: dict[str, object] = field(default_factory=dict)
    failed: str | None = None


def run(contestants: Sequence[Contestant], plan: Plan, rounds: int, say: Say) -> list[Record]:
    """Every contestant in every round, unless it failed before.

    Those for which one round is enough come last: some write a million rows, and what the disk
    still has to do for them would slow down whoever comes next.
    """
    records = [Record(contestant) for contestant in contestants]
    often = [record for record in records if not record.contestant.once]
    turns = [record for _ in range(rounds) for record in often]
    turns += [record for record in records if record.contestant.once]
    with Loopback() as loopback:
        for number, record in enumerate(turns, 1):
            if record.failed:
                continue
            began_s = time.monotonic()
            how = _take_turn(record, plan, loopback)
            took_s = time.monotonic() - began_s
            say(f"turn {number}/{len(turns)}: {record.contestant.title} {how} in {took_s:.0f} s")
    return records


def _take_turn(record: Record, plan: Plan, loopback: Loopback) -> str:
    """One round; how it went, in a word or two."""
    try:
        answer = _answer(record.contestant, plan, loopback)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        record.failed = _reason(error)
        return f"did not run ({record.failed})"
    for name, value in answer["values"].items():
        record.samples.setdefault(name, []).append(value)
    record.config = answer["config"]
    return "done"


def _reason(error: Exception) -> str:
    """The last line it said: the rest of a traceback does not fit into a table."""
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return lines[-1].strip()[:160] if lines else type(error).__name__


def _answer(contestant: Contestant, plan: Plan, loopback: Loopback) -> dict[str, dict[str, Any]]:
    addresses = loopback.addresses(*contestant.needs)
    with _folder(None) as folder, _folder(MEMORY) as counts:
        own = replace(
            plan,
            measures=tuple(name for name in plan.measures if name in contestant.measures),
            folder=folder,
            counts=counts,
            servers=addresses,
            options=dict(contestant.options),
        )
        environment = os.environ | own.as_environment() | {"PYTHONPATH": str(ROOT)}
        python = str(PEERS_PYTHON) if contestant.is_peer else sys.executable
        with _running([python, "-m", contestant.module], environment) as process:
            printed, complained = process.communicate(timeout=contestant.limit_s)
    if process.returncode:
        raise RuntimeError(complained or f"ended with {process.returncode}")
    answer: dict[str, dict[str, Any]] = json.loads(printed.splitlines()[-1])
    return answer


def _folder(where: Path | None) -> tempfile.TemporaryDirectory[str]:
    place = where if where and where.is_dir() else None
    return tempfile.TemporaryDirectory(
        prefix="homing-bench-", dir=place, ignore_cleanup_errors=True
    )


@contextmanager
def _running(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process group of its own, ended as a whole if the contestant hangs or is interrupted."""
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

"""Runs the simulator as its users do: as a command, over this source or a copy of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
LAST_LINE = re.compile(
    r"seeds=(\d+) deliveries=(\d+) faults=(\d+) duplicates=(\d+)"
    r" unexplained=(\d+) lost=(\d+) violations=(\d+)"
)
WORDS = ("seeds", "deliveries", "faults", "duplicates", "unexplained", "lost", "violations")


def simulate(
    *words: str, source: Path = SOURCE, hash_seed: str | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONHASHSEED"}
    environment["PYTHONPATH"] = str(source)
    if hash_seed is not None:
        environment["PYTHONHASHSEED"] = hash_seed
    command = [sys.executable, "-m", "tests.simulation.simulator", *words]
    return subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )


def figures(run: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """The last line's numbers; a run that did not come to its end has none."""
    lines = run.stdout.splitlines()
    found = LAST_LINE.fullmatch(lines[-1]) if lines else None
    assert found, f"no last line; standard error ends with:\n{run.stderr[-2000:]}"
    return dict(zip(WORDS, map(int, found.groups()), strict=True))

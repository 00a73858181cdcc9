"""Generated documents say what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from homing.domain.delivery import FailedBecause, State
from homing.domain.transitions import EDGES
from tools import docs

SCRIPT = Path(docs.__file__)


def test_the_generated_documents_are_up_to_date() -> None:
    assert docs.differences() == [], "run `make docs`"


def test_the_check_tells_what_differs_and_writes_nothing(tmp_path: Path) -> None:
    stale = tmp_path / "docs/STATE_MACHINE.md"
    stale.parent.mkdir()
    stale.write_text("# The state machine\n\nOut of date.\n")

    told = docs.differences(tmp_path)

    assert "-Out of date." in told
    assert any(line.startswith("+| `claim`") for line in told)
    assert stale.read_text().endswith("Out of date.\n")
    docs.write(tmp_path)
    assert docs.differences(tmp_path) == []


def test_the_command_checks_and_says_so_by_its_code() -> None:
    checked = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False
    )

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_every_state_reason_and_transition_is_explained() -> None:
    text = docs.state_machine()
    rows = [line.split("|")[1].strip(" `") for line in text.splitlines() if line.startswith("| `")]

    assert set(get_args(State)) | set(get_args(FailedBecause)) | set(EDGES) <= set(rows)


@pytest.mark.parametrize("name", sorted(EDGES))
def test_every_transition_is_drawn_or_said_to_be_left_out(name: str) -> None:
    drawing, _, rest = docs.state_machine().partition("```\n\n")
    edge = EDGES[name]
    if edge.name in ("amend", "mark_notified"):
        assert f"`{name}`" in rest.splitlines()[0]
        return
    for source in edge.sources:
        for target in edge.targets:
            [arrow] = [
                line
                for line in drawing.splitlines()
                if line.strip().startswith(f"{source} --> {target}:")
            ]
            assert name in arrow.split(": ")[1].split(", ")

"""The README's tour, followed word for word against a real `homing serve`."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.console import Service, commands, masked, running_service

README = Path(__file__).parents[2] / "README.md"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with running_service(tmp_path) as service:
        yield service


def test_the_tour_goes_as_the_readme_says(service: Service) -> None:
    """Each command prints what the README shows, but for ids, times and waits."""
    newest = ""
    for written, expected in commands(README.read_text()):
        if written.startswith("export PATH"):
            continue
        # A reader uses the id on the screen, not the one in the text.
        command = UUID.sub(newest, written) if newest else written
        shown = service.run_until(command, masked(expected))
        assert masked(shown) == masked(expected), command
        found = UUID.findall(shown)
        newest = found[-1] if found else newest


def test_the_readme_names_the_two_commands() -> None:
    text = README.read_text()
    assert re.search(r"^make run$", text, re.MULTILINE)
    assert re.search(r"^make test$", text, re.MULTILINE)


def test_make_help_lists_the_targets() -> None:
    done = subprocess.run(
        ["make", "help"], cwd=README.parent, capture_output=True, text=True, check=True
    )
    for target in ("run", "test", "check", "bench", "simulate", "docs"):
        assert f"make {target}" in done.stdout

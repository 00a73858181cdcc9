"""The examples of the guide, in their order, beside a real `homing serve`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from homing.cli.filters import Filter
from homing.cli.main import app
from tests.unit.cli.programs import START_S, clean_environ, serving, until

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "cli.md"
COMMAND = re.compile(r"^\$ (?P<typed>.*)\n(?P<shown>(?:(?!\$ |```).*\n)*)", re.MULTILINE)
MASKS = (
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"in (?:\d+ (?:h|min|s) ?)+"), "in A-WHILE"),
)


def test_each_command_prints_what_the_guide_shows(tmp_path: Path) -> None:
    [toml] = re.findall(r"```toml title=\"homing.toml\"\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (tmp_path / "homing.toml").write_text(toml)
    with serving(tmp_path):
        for found in COMMAND.finditer(GUIDE.read_text()):
            typed, shown = found["typed"], masked(found["shown"])
            assert answer(tmp_path, typed, shown) == shown, typed


def answer(folder: Path, typed: str, shown: str) -> str:
    """A question is asked again until the worker has done what the text before it tells."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    seen: list[str] = []

    def is_there() -> bool:
        done = subprocess.run(
            ["bash", "-c", typed],
            cwd=folder,
            env=clean_environ({"PATH": path}),
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
        )
        seen.append(masked(done.stdout))
        return seen[-1] == shown or " -r " in typed or "--text" in typed

    until(is_there, what=typed)
    return seen[-1]


def masked(text: str) -> str:
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return text.strip()


def test_the_guide_names_every_command_and_filter() -> None:
    text = GUIDE.read_text()
    names = [each.name for each in app.registered_commands if each.name]
    assert {"replay", "list"} <= {*names}
    for name in names:
        assert f"homing {name}" in text, name
    for field in Filter.__struct_fields__:
        assert f"`--{field.replace('_', '-')}`" in text, field

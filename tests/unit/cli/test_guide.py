"""The guide is complete; `tests/docs/test_guides.py` runs its examples."""

from __future__ import annotations

from pathlib import Path

from homing.cli.main import app
from homing.engine.ops.delivery_filter import FILTERS

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "cli.md"


def test_the_guide_names_every_command_and_filter() -> None:
    text = GUIDE.read_text()
    names = [each.name for each in app.registered_commands if each.name]
    assert {"replay", "list"} <= {*names}
    for name in names:
        assert f"homing {name}" in text, name
    for field in FILTERS:
        assert f"`--{field.replace('_', '-')}`" in text, field

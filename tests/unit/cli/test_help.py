"""`homing --help`: commands in groups, each with a summary that is not cut off."""

from __future__ import annotations

import typer

from homing.cli.groups import GROUPS
from homing.cli.main import app
from tests.unit.cli.conftest import Cli

SHORT_CHARS = 60
WIDTH = 80


def test_every_command_is_in_one_group() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined] # a group
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(commands)


def test_summaries_fit_and_are_not_cut_off(cli: Cli) -> None:
    said = cli("--help").out
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined] # a group
    for title in GROUPS:
        assert f"\n{title}:\n" in said
    for name, command in commands.items():
        summary = command.get_short_help_str(limit=1000)
        assert 0 < len(summary) < SHORT_CHARS, (name, summary)
        assert any(line.split() == [name, *summary.split()] for line in said.splitlines()), name
    assert "..." not in said.partition("Run:")[2]
    assert max(map(len, said.splitlines())) <= WIDTH

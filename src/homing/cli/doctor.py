"""`homing doctor`: exit 1 if anything is bad."""

from __future__ import annotations

import asyncio

import typer

from homing.cli.session import AsJson, ConfigFile, print_json, program
from homing.cli.text import table


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Check store, provider, templates, clock, files and worker, and say what to do."""
    from homing.doctor import examine

    findings = asyncio.run(examine(program(config)))
    if as_json:
        print_json({"findings": findings})
    else:
        rows = [(each.check, each.verdict, each.detail) for each in findings]
        typer.echo(table(("check", "verdict", "detail"), rows))
    raise typer.Exit(1 if any(each.verdict == "bad" for each in findings) else 0)

"""`homing doctor`: exit 1 if anything is bad."""

from __future__ import annotations

import asyncio

import typer

from homing.cli.session import AsJson, ConfigFile, print_json, settings
from homing.cli.text import table


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Check store, provider, templates, clock, files and worker, and say what to do."""
    from homing.doctor import examine

    findings = asyncio.run(examine(settings(config).settings))
    if as_json:
        print_json(findings)
    else:
        typer.echo(
            table(
                ("check", "verdict", "detail"), [(f.check, f.verdict, f.detail) for f in findings]
            )
        )
    raise typer.Exit(1 if any(f.verdict == "bad" for f in findings) else 0)

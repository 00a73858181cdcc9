"""`homing doctor`: exit 1 if anything is bad, 2 if there is no store."""

from __future__ import annotations

import asyncio

import typer

from homing.cli.options import AsJson, Place, command
from homing.cli.progress import working
from homing.cli.session import print_json, program
from homing.cli.terminal import VERDICT_COLORS, Colored, table


def register(app: typer.Typer) -> None:
    app.command()(command(doctor))


def doctor(place: Place, as_json: AsJson = False) -> None:
    """Check the installation and say what to do.

    Looks at the store, the provider, templates, the clock, files and workers.
    """
    from homing.plugins.doctor import NO_STORE, examine

    with working("checking the store and the provider"):
        findings = asyncio.run(examine(program(place)))
    if as_json:
        print_json({"findings": findings})
    else:
        rows = [
            (each.check, Colored(each.verdict, VERDICT_COLORS[each.verdict]), each.detail)
            for each in findings
        ]
        typer.echo(table(("check", "verdict", "detail"), rows))
    if any(each.check == NO_STORE for each in findings):
        raise typer.Exit(2)
    raise typer.Exit(1 if any(each.verdict == "bad" for each in findings) else 0)

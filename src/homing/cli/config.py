"""`homing config show`: the effective settings, secrets masked, with where each came from."""

from __future__ import annotations

import typer

from homing.cli.options import AsJson, Place, command
from homing.cli.session import print_json, program
from homing.cli.terminal import table

app = typer.Typer(help="Show the settings in force.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Keeps `show` a command of its own."""


@app.command()
@command
def show(place: Place, as_json: AsJson = False) -> None:
    """Print the settings in force and where each comes from."""
    from homing.plugins.programs import assemble, settings_in_force

    chosen = program(place)
    assemble(chosen, worker=False, accepts=False)
    rows = settings_in_force(chosen)
    if as_json:
        print_json([{"name": n, "value": v, "origin": o} for n, v, o in rows])
        return
    typer.echo(table(("setting", "value", "from"), rows))

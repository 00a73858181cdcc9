"""`homing config show`: the effective settings, secrets masked, with where each came from."""

from __future__ import annotations

import typer

from homing.cli.options import AsJson, Place, command
from homing.cli.session import print_json, program
from homing.cli.terminal import table

app = typer.Typer(help="Settings.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Keeps `show` a command of its own."""


@app.command()
@command
def show(place: Place, as_json: AsJson = False) -> None:
    """Print what is in force and where it came from."""
    from msgspec.structs import replace

    from homing.from_settings import assemble, routes_of
    from homing.mail_route import DEFAULT_SENDER
    from homing.settings import in_force
    from homing.settings.leaves import values
    from homing.settings.masking import shown
    from homing.settings.own_names import shown_own
    from homing.urls import sends_nowhere

    chosen = program(place)
    assemble(chosen, worker=False)
    loaded = chosen.loaded
    in_use = {route.name: in_force(route) for route in routes_of(chosen)}
    general = chosen.general
    if general.sender is None and sends_nowhere(general.provider):
        general = replace(general, sender=DEFAULT_SENDER)
    rows = [
        (name, shown(name, value), loaded.origin(name) or "default")
        for name, value in values(replace(general, routes=in_use))
    ]
    rows += shown_own(chosen.settings, {} if chosen.own is None else chosen.own.origins)
    if as_json:
        print_json([{"name": n, "value": v, "origin": o} for n, v, o in rows])
        return
    typer.echo(table(("setting", "value", "from"), rows))

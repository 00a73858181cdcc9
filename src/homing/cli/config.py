"""`homing config show`: the effective settings, secrets masked, with where each came from."""

from __future__ import annotations

import typer

from homing.cli.session import AsJson, ConfigFile, print_json, settings
from homing.cli.text import table

app = typer.Typer(help="Settings.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Keeps `show` a command of its own."""


@app.command()
def show(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """What is in force, and why."""
    from msgspec.structs import replace

    from homing.from_settings import build, route_for
    from homing.settings import in_force
    from homing.settings.leaves import values
    from homing.settings.masking import shown

    loaded = settings(config)
    build(loaded.settings, worker=False)
    route = route_for(loaded.settings)
    effective = replace(loaded.settings, routes={route.name: in_force(route)})
    rows = [
        (name, shown(name, value), loaded.origin(name) or "default")
        for name, value in values(effective)
    ]
    if as_json:
        print_json([{"name": n, "value": v, "origin": o} for n, v, o in rows])
        return
    typer.echo(table(("setting", "value", "from"), rows))

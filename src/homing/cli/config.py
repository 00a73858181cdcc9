"""`homing config show`: the effective settings, secrets masked, with where each came from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from homing.cli.session import AsJson, ConfigFile, print_json, settings
from homing.cli.text import table

app = typer.Typer(help="Settings.", no_args_is_help=True)
_SECRET_IN_URL = re.compile(r"(://)([^/@]+)@")
SECRET_NAMES = frozenset({"telemetry.sentry_dsn"})


@app.callback()
def group() -> None:
    """Keeps `show` a command of its own."""


@app.command()
def show(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """What is in force, and why."""
    loaded = settings(config)
    rows = [
        (name, shown(name, value), _origin(loaded.origins, name))
        for name, value in leaves(loaded.settings)
    ]
    if as_json:
        print_json([{"name": n, "value": v, "origin": o} for n, v, o in rows])
        return
    typer.echo(table(("setting", "value", "from"), rows))


def leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every single setting by its dotted name."""
    import msgspec

    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from leaves(getattr(value, name), f"{prefix}.{name}" if prefix else name)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, f"{prefix}.{name}")
    else:
        yield prefix, value


def shown(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name in SECRET_NAMES:
        return "***"
    return masked(str(value))


def masked(text: str) -> str:
    """A URL without its user and password."""
    return _SECRET_IN_URL.sub(r"\1***@", text)


def _origin(origins: dict[str, str], name: str) -> str:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        found = origins.get(".".join(parts[:length]))
        if found is not None:
            return found
    return "default"

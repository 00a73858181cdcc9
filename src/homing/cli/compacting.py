"""`homing compact`: drop the superseded lines of a queue file, which nothing does by itself."""

from __future__ import annotations

from typing import Annotated

import typer

from homing.cli.options import AsJson, Place, command
from homing.cli.progress import working
from homing.cli.session import WrongUse, print_json, with_homing
from homing.runtime.app import Homing


def register(app: typer.Typer) -> None:
    app.command()(command(compact))


def compact(
    place: Place,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Required: confirms that superseded lines are removed."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Keep only the newest line of each delivery in a queue file."""
    from homing.ports import Compacting

    if not yes:
        raise WrongUse("this removes the history of the queue file: confirm with --yes")

    async def act(homing: Homing) -> tuple[int, int]:
        if not isinstance(homing.store, Compacting):
            raise WrongUse("this store keeps no superseded records: there is nothing to compact")
        return await homing.store.compact()

    with working("compacting the queue"):
        before, after = with_homing(place, act)
    if as_json:
        print_json({"bytes_before": before, "bytes_after": after})
    else:
        typer.echo(f"compacted: {before} bytes before, {after} bytes after")

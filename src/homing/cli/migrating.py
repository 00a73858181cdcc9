"""`homing migrate`: bring the store to the newest schema, which every start does as well."""

from __future__ import annotations

from typing import Annotated

import typer

from homing.cli.options import AsJson, Place, command
from homing.cli.progress import working
from homing.cli.session import homing_at, print_json, with_homing
from homing.runtime.app import Homing


def register(app: typer.Typer) -> None:
    app.command()(command(migrate))


def migrate(
    place: Place,
    as_json: AsJson = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the pending migrations.")
    ] = False,
) -> None:
    """Apply the store's pending migrations, or only list them."""
    import asyncio

    from homing.ports import Migrated

    store = homing_at(place).store
    names = asyncio.run(store.pending_migrations()) if isinstance(store, Migrated) else []

    async def act(homing: Homing) -> None:
        """Opening has done it."""
        del homing

    if not dry_run:
        with working("applying migrations"):
            with_homing(place, act, creates=True)
    if as_json:
        print_json({"pending" if dry_run else "applied": names})
        return
    for name in names:
        typer.echo(f"{'pending' if dry_run else 'applied'}: {name}")
    if not names:
        typer.echo("nothing to do: the store has the newest schema")

"""`homing token`: API tokens with roles."""

from __future__ import annotations

from typing import Annotated

import typer

from homing.app import Homing
from homing.cli.session import AsJson, ConfigFile, print_json, with_homing
from homing.cli.text import at, table
from homing.engine.tokens import Token

app = typer.Typer(help="Make, list and revoke API tokens.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME")]


@app.command()
def make(
    name: Name,
    role: Annotated[str, typer.Option(help="viewer, sender, operator or admin.")],
    config: ConfigFile = None,
) -> None:
    """Make a token. It is printed only once."""

    async def act(homing: Homing) -> str:
        return await homing.tokens.make(name, role)

    typer.echo(with_homing(config, act))


@app.command("list")
def list_(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List the names and roles of tokens, not the tokens."""

    async def act(homing: Homing) -> list[Token]:
        return await homing.tokens.all()

    tokens = with_homing(config, act)
    if as_json:
        items = [{"name": t.name, "role": t.role, "created_at_ms": t.created_at_ms} for t in tokens]
        print_json({"items": items})
        return
    typer.echo(
        table(("name", "role", "made"), [(t.name, t.role, at(t.created_at_ms)) for t in tokens])
    )


@app.command()
def revoke(name: Name, config: ConfigFile = None) -> None:
    """Revoke a token."""

    async def act(homing: Homing) -> None:
        await homing.tokens.revoke(name)

    with_homing(config, act)

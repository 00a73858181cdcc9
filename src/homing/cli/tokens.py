"""`homing token`: API tokens with roles."""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from homing.cli.options import AsJson, Place, command
from homing.cli.session import WrongUse, operator, print_json, with_homing
from homing.cli.terminal import at, table
from homing.domain.redaction import visible
from homing.engine.access.tokens import Role, Token
from homing.runtime.app import Homing

app = typer.Typer(help="Create, list and revoke API tokens.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME")]


@app.command()
@command
def create(
    place: Place,
    name: Name,
    role: Annotated[str, typer.Option(help="viewer, sender, operator or admin.")],
    as_json: AsJson = False,
) -> None:
    """Create a token. It is printed only once."""
    if role not in get_args(Role):
        known = ", ".join(get_args(Role))
        raise WrongUse(f"--role: {role!r} is not a role; use one of {known}")

    async def act(homing: Homing) -> str:
        made = await homing.tokens.make(name, role)
        signed = {"actor": operator(), "reason": f"role {role}"}
        await homing.ops.note_access("create token", f"token:{name}", **signed)
        return made

    token = with_homing(place, act, creates=True)
    if as_json:
        print_json({"name": name, "role": role, "token": token})
    else:
        typer.echo(token)


@app.command("list")
@command
def list_(place: Place, as_json: AsJson = False) -> None:
    """List the names and roles of tokens, not the tokens."""

    async def act(homing: Homing) -> tuple[list[Token], dict[str, int]]:
        return await homing.tokens.all(), await homing.tokens.last_uses()

    tokens, used = with_homing(place, act)
    if as_json:
        items = [
            {
                "name": token.name,
                "role": token.role,
                "created_at_ms": token.created_at_ms,
                "last_used_at_ms": used.get(token.digest),
            }
            for token in tokens
        ]
        print_json({"items": items})
        return
    rows = [(t.name, t.role, at(t.created_at_ms), at(used.get(t.digest))) for t in tokens]
    typer.echo(table(("name", "role", "created", "last used"), rows))


@app.command()
@command
def revoke(place: Place, name: Name) -> None:
    """Revoke a token."""

    async def act(homing: Homing) -> None:
        await homing.tokens.revoke(name)
        signed = {"actor": operator(), "reason": "homing token revoke"}
        await homing.ops.note_access("revoke token", f"token:{name}", **signed)

    with_homing(place, act)
    typer.echo(f"revoke: token {visible(name)} is revoked")

"""`homing user`: people who sign in, or are named by a proxy, with roles."""

from __future__ import annotations

import sys
from typing import Annotated, get_args

import typer

from homing.cli.options import AsJson, Place, command
from homing.cli.session import WrongUse, operator, print_json, with_homing
from homing.cli.terminal import at, table
from homing.domain.redaction import visible
from homing.engine.access.users import PersonRole, User
from homing.runtime.app import Homing

app = typer.Typer(help="Create, list and delete people who may sign in.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME")]


@app.command()
@command
def create(
    place: Place,
    name: Name,
    role: Annotated[str, typer.Option(help="viewer, operator or admin.")],
    by_proxy: Annotated[
        bool,
        typer.Option("--by-proxy", help="Without a password: a proxy authenticates this person."),
    ] = False,
) -> None:
    """Create a person who may sign in.

    Prompts for the password, or reads it as one line from a pipe.
    """
    if role not in get_args(PersonRole):
        known = ", ".join(get_args(PersonRole))
        raise WrongUse(f"--role: {role!r} is not a role; use one of {known}")
    password = None if by_proxy else _password()

    async def act(homing: Homing) -> None:
        await homing.users.add(name, role, password)
        await _note(homing, "create user", name, f"role {role}")

    with_homing(place, act, creates=True)
    typer.echo(f"create: {visible(name)} is {role}")


@app.command("list")
@command
def list_(place: Place, as_json: AsJson = False) -> None:
    """List people and their roles."""

    async def act(homing: Homing) -> list[User]:
        return await homing.users.all()

    users = with_homing(place, act)
    if as_json:
        items = [
            {
                "name": user.name,
                "role": user.role,
                "has_password": user.password is not None,
                "created_at_ms": user.created_at_ms,
            }
            for user in users
        ]
        print_json({"items": items})
        return
    rows = [
        (
            user.name,
            user.role,
            "proxy" if user.password is None else "password",
            at(user.created_at_ms),
        )
        for user in users
    ]
    typer.echo(table(("name", "role", "known by", "created"), rows))


@app.command()
@command
def password(place: Place, name: Name) -> None:
    """Set a new password; all sessions of this person end."""
    given = _password()

    async def act(homing: Homing) -> None:
        await homing.users.set_password(name, given)
        await _note(homing, "set password", name)

    with_homing(place, act)
    typer.echo(f"password: {visible(name)} has a new password, and is signed out everywhere")


@app.command("sign-out")
@command
def sign_out(place: Place, name: Name) -> None:
    """End all sessions of this person."""

    async def act(homing: Homing) -> None:
        await homing.users.sign_out(name)
        await _note(homing, "sign out", name)

    with_homing(place, act)
    typer.echo(f"sign-out: {visible(name)} is signed out everywhere")


@app.command()
@command
def delete(place: Place, name: Name) -> None:
    """Delete a person; all their sessions end."""

    async def act(homing: Homing) -> None:
        await homing.users.remove(name)
        await _note(homing, "delete user", name)

    with_homing(place, act)
    typer.echo(f"delete: {visible(name)} is deleted")


async def _note(homing: Homing, verb: str, name: str, reason: str = "by the command line") -> None:
    await homing.ops.note_access(verb, f"user:{name}", actor=operator(), reason=reason)


def _password() -> str:
    """Not as an option: others could read it in the list of processes."""
    if sys.stdin.isatty():
        asked: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return asked
    return sys.stdin.readline().rstrip("\r\n")

"""The commands, one module per noun; what only one command needs is imported by that command."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from typing import Annotated

import typer

from homing.cli import (
    compacting,
    config,
    counters,
    demo,
    doctor,
    listing,
    mcp,
    migrating,
    plan,
    plugins,
    reading,
    sending,
    serving,
    session,
    showing,
    tokens,
    users,
    verbs,
    watching,
    workers,
)
from homing.cli.terminal import colored
from homing.domain.errors import HomingError, InvalidRequest, SharedQueue
from homing.runtime.extras import needed_extra


def register_standard(app: typer.Typer) -> None:
    """What every plugin offers."""
    for module in (
        serving,
        reading,
        watching,
        listing,
        counters,
        workers,
        showing,
        verbs,
        plan,
        doctor,
        migrating,
        compacting,
        mcp,
    ):
        module.register(app)
    app.add_typer(config.app, name="config")
    app.add_typer(tokens.app, name="token")
    app.add_typer(users.app, name="user")


class Commands(plugins.Commands):
    standard = staticmethod(register_standard)


app = typer.Typer(
    name="homing",
    cls=Commands,
    help="Delivers e-mails, events and job results; what cannot be delivered becomes a dead letter"
    " with the reason.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(importlib.metadata.version("homing"))
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Delivers e-mails, events and job results; what cannot be delivered becomes a dead letter with
    the reason."""
    del version
    session.chosen.set(None)


register_standard(app)
sending.register(app)
demo.register(app)


def main() -> None:
    """Run a command; a refusal is one line on stderr, not a stack trace."""
    try:
        app()
    except (session.WrongUse, InvalidRequest, SharedQueue) as error:
        _fail(str(error), code=2)
    except HomingError as error:
        _fail(str(error))
    except BrokenPipeError:
        # The reader of our output has closed the pipe; Python would report it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except ModuleNotFoundError as error:
        needed = needed_extra(error)
        if needed is None:
            _crash(error)
        _fail(f"this {needed}")
    except Exception as error:
        _crash(error)


def _fail(message: str, *, code: int = 1) -> None:
    from homing.domain.redaction import visible

    print(f"{colored('homing:', 'red', sys.stderr)} {visible(message)}", file=sys.stderr)
    sys.exit(code)


def _crash(error: Exception) -> None:
    """A bug of ours: its type and place, without its text, which might quote a customer."""
    from homing.observers.logs import place_of

    _fail(f"unexpected: {place_of(error)}")

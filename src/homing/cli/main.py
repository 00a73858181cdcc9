"""The commands, one module per noun, loaded when they are asked for."""

from __future__ import annotations

import sys

import typer

from homing.cli import config, demo, desk, doctor, plan, reading, serving, tokens
from homing.domain.errors import HomingError

app = typer.Typer(
    name="homing",
    help="Delivers what an application owes somebody, once, or tells a person why not.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for module in (serving, demo, reading, desk, plan, doctor):
    module.register(app)
app.add_typer(config.app, name="config")
app.add_typer(tokens.app, name="token")


def main() -> None:
    """Run a command; a refusal is one line on stderr, not a stack of lines."""
    try:
        app()
    except HomingError as error:
        print(f"homing: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)

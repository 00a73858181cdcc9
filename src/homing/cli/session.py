"""What every command shares: its assembly and settings, and a Homing for reading and repairing."""

from __future__ import annotations

import asyncio
import getpass
import os
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from homing.app import Homing
from homing.domain.delivery import Delivery
from homing.engine.views import DeliveryView, delivery_view

if TYPE_CHECKING:
    from homing.assembly import Assembly
    from homing.from_settings import Program

T = TypeVar("T")

# Set by `homing NAME …`; without a name, the default mail service.
chosen: ContextVar[Assembly[Any] | None] = ContextVar("chosen", default=None)

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", help="The settings file; homing.toml if it is there.", show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
DeliveryId = Annotated[str, typer.Argument(metavar="ID")]


def program(config: Path | None, *, reading: bool = False, generation: int = 0) -> Program:
    """The chosen assembly with its settings; a wrong one is named."""
    from homing.default_service import ASSEMBLY
    from homing.from_settings import load_program

    return load_program(chosen.get() or ASSEMBLY, config, reading=reading, generation=generation)


def with_homing(config: Path | None, act: Callable[[Homing], Awaitable[T]]) -> T:
    """Open the store without a worker, act, close."""
    from homing.from_settings import assemble

    homing = assemble(program(config, reading=True), worker=False)

    async def run() -> T:
        async with homing:
            return await act(homing)

    return asyncio.run(run())


def view_of(homing: Homing, delivery: Delivery) -> DeliveryView:
    """A delivery as it is shown everywhere: the status is its route's own word."""
    return delivery_view(delivery, homing.engine.routes.get(delivery.route))


def operator() -> str:
    """Who is at this terminal, for the audit."""
    return os.environ.get("SUDO_USER") or getpass.getuser()


def print_json(value: Any) -> None:
    """For programs: UTF-8 whatever the terminal uses, with control characters escaped."""
    import msgspec

    from homing.cli.text import escaped_json

    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()
    sys.stdout.buffer.write(escaped_json(text).encode() + b"\n")
    sys.stdout.flush()

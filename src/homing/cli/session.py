"""What every command shares: the settings, and a Homing opened for reading and repairing."""

from __future__ import annotations

import asyncio
import getpass
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from homing.app import Homing
from homing.domain.delivery import Delivery
from homing.engine.views import DeliveryView, delivery_view
from homing.settings import Loaded, load

T = TypeVar("T")

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", help="The settings file; homing.toml if it is there.", show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
DeliveryId = Annotated[str, typer.Argument(metavar="ID")]


def settings(config: Path | None) -> Loaded:
    return load(config)


def with_homing(config: Path | None, act: Callable[[Homing], Awaitable[T]]) -> T:
    """Open the store without a worker, act, close."""
    from homing.from_settings import build

    homing = build(settings(config).settings, worker=False)

    async def run() -> T:
        async with homing:
            return await act(homing)

    return asyncio.run(run())


def view_of(homing: Homing, delivery: Delivery) -> DeliveryView:
    """As everybody sees it: the status is its route's own word."""
    return delivery_view(delivery, homing.engine.routes.get(delivery.route))


def operator() -> str:
    """Who is at this terminal, for the audit."""
    return os.environ.get("SUDO_USER") or getpass.getuser()


def print_json(value: Any) -> None:
    """For programs: UTF-8 whatever the terminal speaks, and no character that it would obey."""
    import msgspec

    from homing.cli.text import escaped_json

    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()
    sys.stdout.buffer.write(escaped_json(text).encode() + b"\n")
    sys.stdout.flush()

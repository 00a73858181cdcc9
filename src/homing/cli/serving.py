"""`homing serve` and `homing worker`: the long-running ones."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from homing.app import Homing
from homing.cli.session import ConfigFile, settings, with_homing


def register(app: typer.Typer) -> None:
    app.command()(serve)
    app.command()(worker)


def serve(
    config: ConfigFile = None,
    host: Annotated[str | None, typer.Option(help="Listen here; loopback by default.")] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Listen on this port; 8025 by default."),
    ] = None,
    worker: Annotated[bool, typer.Option(help="Also deliver, in this process.")] = True,
) -> None:
    """Take deliveries by REST, deliver them, and show where they stand."""
    from msgspec.structs import replace

    from homing.cli.running import run_server

    chosen = settings(config).settings
    server = replace(
        chosen.server,
        host=chosen.server.host if host is None else host,
        port=chosen.server.port if port is None else port,
    )
    run_server(replace(chosen, server=server), worker=worker)


def worker(
    config: ConfigFile = None,
    processes: Annotated[int, typer.Option(min=1, max=64, help="How many processes.")] = 1,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Deliver what others have accepted, until stopped."""
    if processes > 1:
        raise typer.Exit(_run_many(config, processes))
    from homing.cli.running import run_worker

    run_worker(settings(config).settings, with_parent=with_parent)


def _run_many(config: Path | None, processes: int) -> int:
    """Real processes, each a `homing worker` of its own."""
    from homing.cli.supervising import supervise

    chosen = settings(config).settings

    async def look(homing: Homing) -> None:
        """What is wrong is said once, and new stores are made, before there are many of us."""
        del homing

    with_homing(config, look)
    command = [sys.executable, "-m", "homing", "worker", "--with-parent"]
    if config is not None:
        command += ["--config", str(config)]
    return asyncio.run(supervise(command, processes, grace_s=chosen.stop_grace.value))

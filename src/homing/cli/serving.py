"""`homing serve` and `homing worker`: the long-running ones."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from homing.app import Homing
from homing.cli import session
from homing.cli.session import ConfigFile, program, with_homing


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
    """Accept deliveries by REST, deliver them, and show their status."""
    from msgspec.structs import replace

    from homing.cli.running import run_server, with_general

    chosen = program(config)
    server = chosen.general.server
    server = replace(
        server,
        host=server.host if host is None else host,
        port=server.port if port is None else port,
    )
    run_server(with_general(chosen, server=server), worker=worker)


def worker(
    config: ConfigFile = None,
    processes: Annotated[int, typer.Option(min=1, max=64, help="How many processes.")] = 1,
    app: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="Run the handlers and jobs of your own Homing, on its own store.",
            show_default=False,
        ),
    ] = None,
    generation: Annotated[
        int | None,
        typer.Option(
            min=0, help="The generation of this code: events of other generations are left alone."
        ),
    ] = None,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Deliver what others have accepted, until stopped."""
    from homing.cli.running import run_app, run_worker

    named = session.chosen.get()
    if app is not None:
        if named is not None:
            raise typer.BadParameter("--app is for `homing worker` without an assembly")
        from homing.cli.user_app import load_app

        homing = load_app(app)
        if processes > 1:
            raise typer.Exit(_run_many(config, processes, homing.stop_grace_s, app, generation))
        run_app(homing, program(config).general, generation=generation, with_parent=with_parent)
        return
    if generation is not None and named is None:
        raise typer.BadParameter("--generation needs --app or an assembly: mail has none")
    if processes > 1:
        grace_s = program(config).general.stop_grace.value
        with_homing(config, _look)
        raise typer.Exit(_run_many(config, processes, grace_s, None, generation))
    run_worker(program(config, generation=generation or 0), with_parent=with_parent)


async def _look(homing: Homing) -> None:
    """Report a wrong setting once, and make a new store, before there are many processes."""
    del homing


def _run_many(
    config: Path | None, processes: int, grace_s: float, app: str | None, generation: int | None
) -> int:
    """Real processes, each a `homing worker` of its own."""
    from homing.cli.supervising import supervise

    named = session.chosen.get()
    command = [sys.executable, "-m", "homing", *([] if named is None else [named.name])]
    command += ["worker", "--with-parent"]
    options = {"--config": config, "--app": app, "--generation": generation}
    for option, value in options.items():
        command += [] if value is None else [option, str(value)]
    return asyncio.run(supervise(command, processes, grace_s=grace_s))

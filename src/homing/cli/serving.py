"""`homing serve` and `homing worker`: the long-running ones."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Annotated

import typer

from homing.app import Homing
from homing.cli import session
from homing.cli.options import Place, command
from homing.cli.session import app_of, program, with_homing

CONSOLE_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)+")


def register(app: typer.Typer) -> None:
    app.command()(command(serve))
    app.command()(command(worker))


def serve(
    place: Place,
    host: Annotated[str | None, typer.Option(help="Listen here; loopback by default.")] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Listen on this port; 8025 by default."),
    ] = None,
    worker: Annotated[bool, typer.Option(help="Also deliver, in this process.")] = True,
    console: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX",
            help="Serve the operator console under this path, such as /console.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Accept deliveries by REST, deliver them, and show them in the operator console."""
    from msgspec.structs import replace

    from homing.cli.running import run_server, with_general

    chosen = program(place)
    server = chosen.general.server
    server = replace(
        server,
        host=server.host if host is None else host,
        port=server.port if port is None else port,
    )
    if console is not None and not CONSOLE_PREFIX.fullmatch(console):
        raise typer.BadParameter("--console: write a path such as /console")
    run_server(with_general(chosen, server=server), worker=worker, console=console)


def worker(
    place: Place,
    processes: Annotated[int, typer.Option(min=1, max=64, help="How many processes.")] = 1,
    generation: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="The generation of this code: its events, and those of none, are handled.",
        ),
    ] = None,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Deliver what others have accepted, until stopped."""
    from homing.cli.running import run_app, run_worker

    if place.app is not None:
        homing = app_of(place, place.app)
        if processes > 1:
            raise typer.Exit(_run_many(place, processes, homing.stop_grace_s, generation))
        general = program(Place(config=place.config)).general
        run_app(homing, general, generation=generation, with_parent=with_parent)
        return
    if generation is not None and session.chosen.get() is None:
        raise typer.BadParameter("--generation needs --app or an assembly: mail has none")
    if processes > 1:
        grace_s = program(place).general.stop_grace.value
        with_homing(place, _look, creates=True)
        raise typer.Exit(_run_many(place, processes, grace_s, generation))
    run_worker(program(place, generation=generation or 0), with_parent=with_parent)


async def _look(homing: Homing) -> None:
    """Report a wrong setting once, and make a new store, before there are many processes."""
    del homing


def _run_many(place: Place, processes: int, grace_s: float, generation: int | None) -> int:
    """Real processes, each a `homing worker` of its own."""
    from homing.cli.supervising import supervise

    named = session.chosen.get()
    words = [sys.executable, "-m", "homing", *([] if named is None else [named.name])]
    words += ["worker", "--with-parent", *place.words]
    words += [] if generation is None else ["--generation", str(generation)]
    return asyncio.run(supervise(words, processes, grace_s=grace_s))

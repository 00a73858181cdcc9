"""`homing serve` and `homing worker`: the long-running ones."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from homing.cli import session
from homing.cli.options import Place, command
from homing.cli.session import app_of, program, with_homing
from homing.runtime.app import Homing

if TYPE_CHECKING:
    from homing.plugins.programs import Program

CONSOLE_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)+")


def register(app: typer.Typer) -> None:
    app.command()(command(serve))
    app.command()(command(worker))


def serve(
    place: Place,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on; loopback by default.")
    ] = None,
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
    """Serve REST and the console, and deliver in this process."""
    from msgspec.structs import replace

    from homing.cli.running import run_server, with_general

    chosen = program(place)
    options: dict[str, Any] = {
        name: value for name, value in (("host", host), ("port", port)) if value is not None
    }
    server = replace(chosen.general.server, **options)
    origins = {f"server.{name}": f"--{name}" for name in options}
    if console is not None and not CONSOLE_PREFIX.fullmatch(console):
        raise typer.BadParameter("--console: write a path such as /console")
    run_server(with_general(chosen, origins, server=server), worker=worker, console=console)


def worker(
    place: Place,
    processes: Annotated[int, typer.Option(min=1, max=64, help="How many processes.")] = 1,
    generation: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="The generation of this code: it handles events of this generation and of"
            " generation 0.",
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once",
            help="Attempt everything that is due now, then exit; for cron or a systemd timer.",
        ),
    ] = False,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Deliver what other processes have accepted."""
    from homing.cli.running import run_app, run_once, run_worker
    from homing.plugins.known import check_queues

    if once and (place.app is not None or processes > 1):
        raise typer.BadParameter("--once is for one process, and not for --app")
    plugin = session.chosen.get()
    if place.app is not None:
        homing = app_of(place, place.app)
        given = program(Place(config=place.config), reading=True)
        _check_time_scale(homing, given)
        if plugin is not None:
            check_queues(given.general, plugin.name)
            asyncio.run(session.demand_schema(homing.store))
        if processes > 1:
            raise typer.Exit(_run_many(place, processes, homing.shutdown_grace_s, generation))
        run_app(homing, given.general, plugin, generation=generation, with_parent=with_parent)
        return
    if plugin is not None and plugin.work_for_app is not None:
        raise session.WrongUse(
            f"homing {plugin.name} worker runs the handlers of your application: name it with"
            " --app module:homing"
        )
    if generation is not None and plugin is None:
        raise typer.BadParameter("--generation needs --app or a plugin: mail has none")
    if once:
        run_once(program(place, generation=generation or 0))
        return
    if processes > 1:
        chosen = program(place)
        check_queues(chosen.general, chosen.plugin.name)
        with_homing(place, _look, creates=True)
        grace_s = chosen.general.shutdown_grace.value
        raise typer.Exit(_run_many(place, processes, grace_s, generation))
    run_worker(program(place, generation=generation or 0), with_parent=with_parent)


def _check_time_scale(homing: Homing, given: Program) -> None:
    """An application's Homing has its own; a setting beside it would only seem to hold."""
    scale = given.general.time_scale
    origin = given.loaded.origin("time_scale")
    if origin is not None and scale != homing.time_scale:
        raise session.WrongUse(
            f"time_scale ({origin}) has no effect on an application: it has"
            f" Homing(time_scale={homing.time_scale:g})"
        )


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

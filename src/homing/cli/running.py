"""Programs that run until they are stopped: a Homing with its observers."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import typer
from msgspec.structs import replace

from homing.cli.session import demand_folder
from homing.cli.supervising import Orphaned
from homing.plugins.programs import Program, assemble, with_log_notices
from homing.plugins.telemetry import Telemetry
from homing.plugins.value import Plugin, Service
from homing.runtime import long_running
from homing.runtime.app import Homing, use_as_worker
from homing.settings import Settings, masked

if TYPE_CHECKING:
    from starlette.responses import Response

    from homing.web.http.calls import Call

Beside = Callable[[Homing], Awaitable[None]]


def with_general(
    program: Program, origins: Mapping[str, str] | None = None, **changes: Any
) -> Program:
    """The program with these general settings instead of its own; `origins` says of single ones,
    such as `server.port`, where they come from."""
    general, known = replace(program.general, **changes), program.loaded.origins
    loaded = replace(program.loaded, settings=general, origins={**known, **(origins or {})})
    return replace(program, loaded=loaded)


def _assemble(program: Program, *, worker: bool, scraped: bool) -> tuple[Homing, Telemetry]:
    fields = program.plugin.log_fields
    telemetry = Telemetry(program.general, scraped=scraped, log_fields=fields)
    homing = assemble(
        program,
        worker=worker,
        observers=telemetry.observers,
        notifiers=telemetry.notifiers,
        alarm=telemetry.alarm,
    )
    demand_folder(homing.store)
    return homing, telemetry


def run_server(
    program: Program, *, worker: bool, beside: Beside | None = None, console: str | None = None
) -> None:
    """Serve until SIGTERM or SIGINT. `beside` runs in the same loop for as long."""
    from starlette.applications import Starlette

    from homing.web.application import application
    from homing.web.serving import serve

    homing, telemetry = _assemble(program, worker=worker, scraped=True)
    server = program.general.server
    server = replace(server, port=server.port or _free_port(server.host))
    settings = with_general(program, server=server).general
    app = application(
        homing,
        settings,
        metrics=telemetry.metrics(homing) or _no_metrics,
        web=program.plugin.web,
        service=Service(homing, program.settings, settings),
        console=console,
        program=program,
    )
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(starlette: Starlette) -> AsyncIterator[None]:
        async with inner(starlette):
            telemetry.attach(homing)
            typer.echo(_banner(settings), err=True)
            async with _running(beside, homing):
                yield

    app.router.lifespan_context = lifespan
    try:
        serve(app, server, shutdown_grace_s=settings.shutdown_grace.value)
    finally:
        telemetry.close()


def run_worker(program: Program, *, with_parent: bool) -> None:
    """Deliver until SIGTERM or SIGINT, or until the parent is gone."""
    homing, telemetry = _assemble(program, worker=True, scraped=False)
    _work(homing, telemetry, with_parent=with_parent)


def run_once(program: Program) -> None:
    """Attempt all that is due now, give the notices, and end."""
    homing, telemetry = _assemble(program, worker=False, scraped=False)

    async def run() -> int:
        async with homing:
            return await homing.engine.run_once()

    try:
        typer.echo(f"{asyncio.run(run())} attempted", err=True)
    finally:
        telemetry.close()


def run_app(
    homing: Homing,
    settings: Settings,
    plugin: Plugin[Any] | None = None,
    *,
    generation: int | None,
    with_parent: bool,
) -> None:
    """The same for a Homing of the user's own, which has its store, provider and clock."""
    telemetry = Telemetry(settings, log_fields={} if plugin is None else plugin.log_fields)
    if plugin is not None and plugin.work_for_app is not None:
        plugin.work_for_app(homing, telemetry)
    use_as_worker(
        homing,
        adapt=lambda route: with_log_notices(route, settings),
        generation=generation,
        observers=telemetry.observers,
        notifiers=telemetry.notifiers,
        alarm=telemetry.alarm,
    )
    _work(homing, telemetry, with_parent=with_parent)


def _work(homing: Homing, telemetry: Telemetry, *, with_parent: bool) -> None:
    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        if with_parent:
            await loop.connect_read_pipe(lambda: Orphaned(stop), sys.stdin)
        await homing.start()
        telemetry.attach(homing)
        long_running.has_started()
        typer.echo("Homing worker is running", err=True)
        try:
            await stop.wait()
        finally:
            await homing.stop()

    try:
        long_running.run(run())
    finally:
        telemetry.close()


@asynccontextmanager
async def _running(beside: Beside | None, homing: Homing) -> AsyncIterator[None]:
    if beside is None:
        yield
        return
    task = asyncio.ensure_future(beside(homing))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _banner(settings: Settings) -> str:
    server = settings.server
    host = f"[{server.host}]" if ":" in server.host else server.host
    scheme = "http" if server.tls_cert is None else "https"
    return (
        f"Homing on {scheme}://{host}:{server.port}"
        f" (store {masked(settings.store)}, provider {masked(settings.provider)})"
    )


def _free_port(host: str) -> int:
    """Chosen here, so that the banner can name it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


async def _no_metrics(call: Call) -> Response:
    """Switched off by `telemetry.prometheus`."""
    from homing.web.http.problems import problem

    del call
    return problem(404)

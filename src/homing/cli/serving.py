"""`homing serve` and `homing worker`: the long-running ones."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from homing.cli.session import ConfigFile, settings
from homing.settings import Settings


def register(app: typer.Typer) -> None:
    app.command()(serve)
    app.command()(worker)


def serve(
    config: ConfigFile = None,
    host: Annotated[str | None, typer.Option(help="Listen here; loopback by default.")] = None,
    port: Annotated[int | None, typer.Option(help="Listen on this port; 8025 by default.")] = None,
    worker: Annotated[bool, typer.Option(help="Also deliver, in this process.")] = True,
) -> None:
    """Take deliveries by REST, deliver them, and show where they stand."""
    from msgspec.structs import replace

    chosen = settings(config).settings
    server = replace(
        chosen.server,
        host=chosen.server.host if host is None else host,
        port=chosen.server.port if port is None else port,
    )
    run_server(replace(chosen, server=server), worker=worker)


def run_server(chosen: Settings, *, worker: bool) -> None:
    from homing.building import build
    from homing.watching import watch
    from homing.web.application import application
    from homing.web.serving import serve as serve_app

    watching = watch(chosen)
    homing = build(
        chosen,
        worker=worker,
        observers=watching.observers,
        notifiers=watching.notifiers,
        alarm=watching.alarm,
    )
    app = application(homing, chosen, metrics=watching.metrics)
    typer.echo(
        f"Homing on http://{chosen.server.host}:{chosen.server.port}"
        f" (store {_shown(chosen.store)}, provider {_shown(chosen.provider)})",
        err=True,
    )
    serve_app(app, chosen.server, stop_grace_s=chosen.stop_grace.value)


def worker(
    config: ConfigFile = None,
    processes: Annotated[int, typer.Option(min=1, max=64, help="How many processes.")] = 1,
) -> None:
    """Deliver what others have accepted, until stopped."""
    if processes > 1:
        sys.exit(_run_many(config, processes))
    from homing.building import build
    from homing.watching import watch

    chosen = settings(config).settings
    watching = watch(chosen)
    homing = build(
        chosen,
        worker=True,
        observers=watching.observers,
        notifiers=watching.notifiers,
        alarm=watching.alarm,
    )

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await homing.start()
        typer.echo("Homing worker is running", err=True)
        try:
            await stop.wait()
        finally:
            await homing.stop(chosen.stop_grace.value)

    asyncio.run(run())


def _run_many(config: Path | None, processes: int) -> int:
    """Real processes, each a `homing worker` of its own; one that dies is started again."""
    command = [sys.executable, "-m", "homing", "worker"]
    if config is not None:
        command += ["--config", str(config)]
    children = [subprocess.Popen(command) for _ in range(processes)]  # noqa: S603 - ourselves
    stopping = False

    def stop(number: int, frame: object) -> None:
        nonlocal stopping
        del number, frame
        stopping = True
        for child in children:
            child.terminate()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    while not stopping:
        for place, child in enumerate(children):
            try:
                child.wait(timeout=1.0)
            except subprocess.TimeoutExpired:
                continue
            if not stopping:
                typer.echo(f"a worker ended with {child.returncode}; starting another", err=True)
                children[place] = subprocess.Popen(command)  # noqa: S603 - ourselves
    return max((child.wait() for child in children), default=0, key=abs)


def _shown(url: str) -> str:
    from homing.cli.config import masked

    return masked(url)

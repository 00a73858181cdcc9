"""`homing bookings serve`: the booking application with its outbox, in one process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from homing.plugins import Service, assemble, load_plugin, load_program, masked
from homing.plugins.telemetry import Telemetry

PORT = 8003


def serve(
    host: Annotated[
        str | None, typer.Option(help="The address to listen on; loopback by default.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help=f"Listen on this port; {PORT} by default.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="The settings file; by default homing.toml, if it exists.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="This SQLite file instead of the one in the settings: sqlite:///b.db.",
        ),
    ] = None,
) -> None:
    """Take bookings, send their mails, and show the outbox to the host."""
    # Late: `homing --help` loads none of these.
    from homing.web import serving  # noqa: PLC0415 - as above
    from homing_systems.bookings.app.application import create_app  # noqa: PLC0415 - as above

    program = load_program(load_plugin("bookings"), config, store=store)
    general, loaded = program.general, program.loaded
    # Mail must be asked for: the default of the setting, the stub, would only seem to send.
    mail = loaded.origin("provider") is not None
    set_port = general.server.port if loaded.origin("server.port") is not None else PORT
    server = replace(
        general.server,
        host=general.server.host if host is None else host,
        port=set_port if port is None else port,
    )
    telemetry = Telemetry(general, log_fields=program.plugin.log_fields)
    homing = assemble(
        program,
        worker=mail,
        observers=telemetry.observers,
        notifiers=telemetry.notifiers,
        alarm=telemetry.alarm,
    )
    app = create_app(Service(homing, program.settings, general), mail=mail)
    sends = f"provider {masked(general.provider)}" if mail else "mail is off"
    where = f"{'http' if server.tls_cert is None else 'https'}://{server.host}:{server.port}"
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(running: Any) -> AsyncIterator[None]:
        async with inner(running):
            telemetry.attach(homing)
            typer.echo(f"Bookings on {where} (store {masked(general.store)}, {sends})", err=True)
            yield

    app.router.lifespan_context = lifespan
    try:
        serving.serve(app, server, shutdown_grace_s=general.shutdown_grace.value)
    finally:
        telemetry.close()

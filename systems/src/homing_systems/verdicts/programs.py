"""`homing verdicts serve`, `webhook`, `health` and `replay`."""

from __future__ import annotations

import getpass
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from msgspec.structs import replace

from homing.plugins import (
    Plugin,
    Program,
    Service,
    Web,
    assemble,
    load_plugin,
    load_program,
    masked,
    with_service,
)
from homing.plugins.telemetry import Telemetry
from homing_systems.verdicts.presence import alert_if_absent, problems
from homing_systems.verdicts.route import NAME
from homing_systems.verdicts.settings import ALLOW_REPLAY, environ_with_file
from homing_systems.verdicts.web import SERVICE, WEBHOOK

WEBHOOK_PORT = 8007

Host = Annotated[str | None, typer.Option(help="The address to listen on; loopback by default.")]
Config = Annotated[
    Path | None, typer.Option(help="The settings file; by default homing.toml, if it exists.")
]
StoreUrl = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="This store instead of the set one.")
]
AllowReplay = Annotated[bool, typer.Option("--allow-replay", help="Dead ones may be replayed.")]


def serve(
    host: Host = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Listen on this port; 8006 by default.")
    ] = None,
    worker: Annotated[bool, typer.Option(help="Also retry in this process.")] = False,
    allow_replay: AllowReplay = False,
    config: Config = None,
    store: StoreUrl = None,
) -> None:
    """Take verdicts by POST /send-verdict-email and Stripe's events by POST /webhook."""
    program = load_program(_plugin(allow_replay=allow_replay), config, store=store)

    async def begin(service: Service[Any]) -> None:
        if service.settings.stripe_secret is None:
            typer.echo("STRIPE_WEBHOOK_SECRET is not set: /webhook refuses all", err=True)
        if not worker:
            await alert_if_absent(service)

    _run(_listening(program, host, port), SERVICE, worker=worker, begin=begin)


def webhook(
    host: Host = None,
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Listen on this port.")
    ] = WEBHOOK_PORT,
    config: Config = None,
    store: StoreUrl = None,
) -> None:
    """Take Stripe's events and pass them to the mail service, or to the queue while it is down."""
    program = load_program(_plugin(), config, store=store)
    # It never sends, so it needs no credentials.
    general = replace(program.general, provider="stub:")
    program = replace(program, loaded=replace(program.loaded, settings=general))

    async def begin(service: Service[Any]) -> None:
        if service.settings.stripe_secret is None:
            typer.echo("STRIPE_WEBHOOK_SECRET is not set: all events are refused", err=True)

    _run(_listening(program, host, port), WEBHOOK, worker=False, begin=begin)


def health(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    config: Config = None,
    store: StoreUrl = None,
) -> None:
    """Exit with 0 if a worker is running and all files can be written; otherwise with 1 and the
    reason."""
    found = with_service(load_plugin(NAME), problems, config=config, store=store)
    if as_json:
        words = {"status": "bad" if found else "ok", "problems": found}
        typer.echo(msgspec.json.encode(words).decode())
    else:
        typer.echo("\n".join(found) or "ok")
    raise typer.Exit(1 if found else 0)


def replay(
    delivery_id: Annotated[str, typer.Argument(metavar="RETRY_ID")],
    reason: Annotated[str, typer.Option(help="Why, for the audit.")],
    allow_replay: AllowReplay = False,
    config: Config = None,
    store: StoreUrl = None,
) -> None:
    """Start a dead letter over; only with --allow-replay. The worker sends it."""
    actor = os.environ.get("SUDO_USER") or getpass.getuser()

    async def act(service: Service[Any]) -> None:
        await service.homing.ops.replay(delivery_id, actor=actor, reason=reason)

    with_service(_plugin(allow_replay=allow_replay), act, config=config, store=store)
    typer.echo(f"{delivery_id} is queued again", err=True)


def _plugin(*, allow_replay: bool = False) -> Plugin[Any]:
    plugin = load_plugin(NAME)
    if not allow_replay:
        return plugin

    def environ(given: Mapping[str, str]) -> Mapping[str, str]:
        return {**environ_with_file(given), ALLOW_REPLAY: "true"}

    return replace(plugin, environ=environ)


def _listening(program: Program, host: str | None, port: int | None) -> Program:
    general = program.general
    server = replace(
        general.server,
        host=general.server.host if host is None else host,
        port=general.server.port if port is None else port,
    )
    general = replace(general, server=server)
    return replace(program, loaded=replace(program.loaded, settings=general))


def _run(
    program: Program,
    web: Web,
    *,
    worker: bool,
    begin: Callable[[Service[Any]], Awaitable[None]],
) -> None:
    """Serve this table until SIGTERM or SIGINT."""
    # Late: these need the extra `web`.
    from homing.web.application import application
    from homing.web.serving import serve as serve_app

    general = program.general
    telemetry = Telemetry(general, scraped=True, log_fields=program.plugin.log_fields)
    homing = assemble(
        program,
        worker=worker,
        observers=telemetry.observers,
        notifiers=telemetry.notifiers,
        alarm=telemetry.alarm,
    )
    service = Service(homing, program.settings, general)
    metrics = telemetry.metrics(homing)
    app = application(homing, general, metrics=metrics, web=web, service=service)
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(running: Any) -> AsyncIterator[None]:
        async with inner(running):
            telemetry.attach(homing)
            await begin(service)
            server = general.server
            scheme = "http" if server.tls_cert is None else "https"
            where = f"{scheme}://{server.host}:{server.port}"
            typer.echo(f"Verdicts on {where} (store {masked(general.store)})", err=True)
            yield

    app.router.lifespan_context = lifespan
    try:
        serve_app(app, general.server, shutdown_grace_s=general.shutdown_grace.value)
    finally:
        telemetry.close()

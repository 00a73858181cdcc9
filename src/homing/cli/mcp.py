"""`homing mcp`: the tools for agents, on stdio or by HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias

import typer

from homing.cli.options import Place, command
from homing.cli.session import demand_store, homing_at, program
from homing.runtime.app import Homing

PORT = 8026
# Serves the tools of an open Homing; the switch allows replays.
Run: TypeAlias = Callable[[Homing, bool], Awaitable[None]]


def register(app: typer.Typer) -> None:
    app.command()(command(mcp))


def mcp(
    place: Place,
    http: Annotated[bool, typer.Option("--http", help="Serve HTTP at /mcp, not stdio.")] = False,
    host: Annotated[
        str,
        typer.Option(
            help="With --http: the address to listen on. On other addresses than loopback, API"
            " tokens are required."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="With --http: listen on this port.")
    ] = PORT,
    allow_replay: Annotated[
        bool, typer.Option("--allow-replay", help="Let agents replay dead letters.")
    ] = False,
) -> None:
    """Serve tools for agents (Model Context Protocol).

    They inspect dead letters, and replay them only with --allow-replay.
    """
    homing = homing_at(place)
    run = _http(place, host, port) if http else _stdio
    asyncio.run(_opened(homing, place, run, allow_replay=allow_replay))


async def _opened(homing: Homing, place: Place, run: Run, *, allow_replay: bool) -> None:
    await demand_store(homing, place)
    async with homing:
        await run(homing, allow_replay)


async def _stdio(homing: Homing, allow_replay: bool) -> None:
    from homing.mcp.server import mcp_server

    await mcp_server(homing, allow_replay=allow_replay).run_stdio_async()


def _http(place: Place, host: str, port: int) -> Run:
    from msgspec.structs import replace

    general = program(Place(config=place.config)).general
    settings = replace(general.server, host=host, port=port)

    async def run(homing: Homing, allow_replay: bool) -> None:
        from homing.web.access.auth import check_access
        from homing.web.serving import Server, bind

        await check_access(settings, homing)
        with contextlib.closing(bind(host, port)) as listener:
            # Loading the SDK takes a second: what is refused is refused before it.
            from homing.mcp.front import application
            from homing.mcp.server import mcp_server

            server = mcp_server(homing, allow_replay=allow_replay)
            app = application(server, homing, settings)
            typer.echo(f"MCP on http://{host}:{listener.getsockname()[1]}/mcp", err=True)
            await Server(app, general.shutdown_grace.value).live(listener)

    return run

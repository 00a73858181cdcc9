"""`homing-mock-graph`: a fake of Microsoft Graph, for smoke tests of a deployment."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from homing import InvalidRequest
from homing_systems.mock_graph.application import Behaviour, MockGraph
from homing_systems.mock_graph.serving import new_server
from homing_systems.mock_graph.state import State


def mock_graph(  # noqa: PLR0913, PLR0917 - the options of a command
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen on this port.")] = 8099,
    script: Annotated[
        str,
        typer.Option(
            help="Answers to the calls that send, one after the other: 503,429:120,202."
            " Also 429@120 (Retry-After as a date), cut, 202-cut. After the end of the script, 202."
        ),
    ] = "",
    token_script: Annotated[
        str,
        typer.Option(help="Answers of the token endpoint: 200,401,503,cut,revoked."),
    ] = "",
    state: Annotated[
        Path | None,
        typer.Option(help="Keep ledger, calls and tokens in this folder, which is created."),
    ] = None,
    scope: Annotated[
        str,
        typer.Option(help="The granted permissions; drafts need Mail.ReadWrite."),
    ] = "Mail.Send",
    recipient: Annotated[
        list[str] | None,
        typer.Option(help="A script for one recipient: ann@example.org=503,202. Repeatable."),
    ] = None,
    latency_ms: Annotated[int, typer.Option(min=0, help="Answer this much later.")] = 0,
    token_life_s: Annotated[
        int, typer.Option(min=1, help="How long an access token is valid.")
    ] = 3600,
    revoke_used: Annotated[
        bool, typer.Option("--revoke-used", help="A refresh token works only once.")
    ] = False,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
) -> None:
    """A fake of Microsoft Graph: the token endpoint, sendMail and drafts. It sends nothing.

    GET /_ledger lists the accepted mails, GET /_calls every call with its answer.
    """
    behaviour = Behaviour(
        script=script,
        token_script=token_script,
        recipients=recipient or (),
        scope=scope,
        latency_s=latency_ms / 1000,
        token_life_s=token_life_s,
        revoke_used=revoke_used,
    )
    with contextlib.ExitStack() as stack:
        if state is None:
            folder = tempfile.TemporaryDirectory(prefix="homing-mock-graph-")
            state = Path(stack.enter_context(folder))
        fake = MockGraph(State(state), behaviour)
        listener = stack.enter_context(socket.create_server((host, port)))
        typer.echo(f"mock-graph: http://{host}:{listener.getsockname()[1]}", err=True)
        asyncio.run(new_server(fake).serve(sockets=[listener]))


def main() -> None:
    """A refusal is one line on stderr: exit code 2 for a wrong option, 1 for a taken port."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(mock_graph)
    try:
        app(prog_name="homing-mock-graph")
    except (InvalidRequest, OSError) as error:
        typer.echo(f"homing-mock-graph: {error}", err=True)
        sys.exit(2 if isinstance(error, InvalidRequest) else 1)

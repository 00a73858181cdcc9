"""`homing demo`: the service with traffic to all test addresses and short retry times."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from homing.cli.session import WrongUse
from homing.runtime.app import Homing
from homing.settings import Loaded, RouteSettings, Seconds, Settings, seconds
from homing.settings.tree import RetrySettings, ServerSettings

# Mostly successes; each name is a behaviour of the stub.
NAMES = (
    "ok",
    "ok",
    "soft-1",
    "ok",
    "bounce",
    "ok",
    "soft-2",
    "maybe",
    "ok",
    "down",
    "suppressed",
    "auth",
)
# Now and then to several at once: some get it, some do not.
TOGETHER = ("ok", "soft-1", "bounce")


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen on this port.")] = 8025,
    interval: Annotated[str, typer.Option(help="The time between two mails.")] = "500ms",
) -> None:
    """Start Homing on a temporary store, with traffic."""
    from homing.cli.running import run_server
    from homing.plugins.programs import Program

    try:
        interval_s = seconds(interval)
    except ValueError as error:
        raise WrongUse(f"--interval: {error}") from None
    with tempfile.TemporaryDirectory(prefix="homing-demo-") as folder:
        chosen = demo_settings(Path(folder), port)
        typer.echo("A demo on a temporary store; no mail is really sent", err=True)
        typer.echo(
            f"Ask it, in another terminal: homing list --state failed --store {chosen.store}",
            err=True,
        )
        program = Program(loaded=Loaded(chosen, {}))
        run_server(program, worker=True, beside=lambda homing: _traffic(homing, interval_s))


def demo_settings(folder: Path, port: int) -> Settings:
    retry = RetrySettings(ladder=(Seconds(1.0), Seconds(2.0), Seconds(4.0)))
    # Bad credentials would pause the only route and end the demo; here they fail one message.
    mail = RouteSettings(retry=retry, max_attempts=4, on_route_fault="fail")
    return Settings(
        store=f"sqlite:///{folder}/demo.db",
        provider=f"stub:?ledger={folder}/ledger.jsonl&latency_ms=20",
        server=ServerSettings(port=port),
        routes={"mail": mail},
    )


async def _traffic(homing: Homing, interval_s: float) -> None:
    from homing.domain.message import Email

    for number, name in zip(itertools.count(1), itertools.cycle((*NAMES, None)), strict=False):
        names = TOGETHER if name is None else (name,)
        email = Email(
            to=[f"{each}@stub.test" for each in names],
            subject=f"Demo {number}",
            text=f"Message {number} for {', '.join(names)}.",
        )
        await homing.submit(email, key=f"demo-{number}", source="demo")
        await asyncio.sleep(interval_s)

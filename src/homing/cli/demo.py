"""`homing demo`: the service with lively traffic over all test addresses and short retry times."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from homing.settings import RouteSettings, Seconds, Settings
from homing.settings.tree import RetrySettings, ServerSettings


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    port: Annotated[int, typer.Option(help="Listen on this port.")] = 8025,
    every: Annotated[float, typer.Option(min=0.01, help="Seconds between two mails.")] = 0.5,
) -> None:
    """Start Homing on a throw-away store and send mail to every kind of test address."""
    from homing.cli.traffic import run_demo

    with tempfile.TemporaryDirectory(prefix="homing-demo-") as folder:
        typer.echo(f"store and ledger in {folder}, gone when you stop", err=True)
        run_demo(demo_settings(Path(folder), port), every_s=every)


def demo_settings(folder: Path, port: int) -> Settings:
    retry = RetrySettings(ladder=(Seconds(1.0), Seconds(2.0), Seconds(4.0)))
    return Settings(
        store=f"sqlite:///{folder}/demo.db",
        provider=f"stub:?ledger={folder}/ledger.jsonl&latency_ms=20",
        server=ServerSettings(port=port),
        routes={"mail": RouteSettings(retry=retry, max_attempts=4)},
    )

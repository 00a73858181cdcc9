"""The demo's traffic: one mail after another to every kind of test address."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import typer
from starlette.applications import Starlette

from homing.app import Homing
from homing.building import build
from homing.domain.message import Email
from homing.settings import Settings
from homing.watching import watch
from homing.web.application import application
from homing.web.serving import serve

# Mostly good news, as in life.
NAMES = (
    "ok",
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
)


def run_demo(settings: Settings, *, every_s: float) -> None:
    watching = watch(settings)
    homing = build(
        settings,
        worker=True,
        observers=watching.observers,
        notifiers=watching.notifiers,
        alarm=watching.alarm,
    )
    app = application(homing, settings, metrics=watching.metrics)
    _add_traffic(app, homing, every_s)
    typer.echo(f"Homing demo on http://{settings.server.host}:{settings.server.port}", err=True)
    serve(app, settings.server, stop_grace_s=settings.stop_grace.value)


def _add_traffic(app: Starlette, homing: Homing, every_s: float) -> None:
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(starlette: Starlette) -> AsyncIterator[None]:
        async with inner(starlette):
            task = asyncio.get_running_loop().create_task(_traffic(homing, every_s))
            try:
                yield
            finally:
                task.cancel()

    app.router.lifespan_context = lifespan


async def _traffic(homing: Homing, every_s: float) -> None:
    for number, name in zip(itertools.count(1), itertools.cycle(NAMES)):
        email = Email(
            to=f"{name}@stub.test", subject=f"Demo {number}", text=f"Message {number} for {name}."
        )
        await homing.submit(email, key=f"demo-{number}", source="demo")
        await asyncio.sleep(every_s)

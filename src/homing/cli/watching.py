"""`homing watch`: the store as it changes, or one delivery until it ends."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Annotated

import typer

from homing.cli.options import AsJson, Place, command
from homing.cli.reading import Overview, overview, overview_lines
from homing.cli.session import WrongUse, print_json, with_homing
from homing.cli.terminal import at, is_terminal
from homing.domain.redaction import visible
from homing.engine.ops.views import delivery_view
from homing.runtime.app import Homing
from homing.settings import seconds

# Cursor to the upper left corner, and the screen below it emptied.
CLEAR = "\x1b[H\x1b[J"


def register(app: typer.Typer) -> None:
    app.command()(command(watch))


def watch(
    place: Place,
    delivery_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Follow this delivery until it ends.")
    ] = None,
    interval: Annotated[str, typer.Option(help="The interval between two updates.")] = "2s",
    count: Annotated[int | None, typer.Option(min=1, help="Exit after this many updates.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the numbers of deliveries as they change.

    With an ID: what happens to that delivery. Ends with 0 once it is delivered or closed, and
    with 1 if it has failed.
    """
    try:
        rest_s = seconds(interval)
    except ValueError as error:
        raise WrongUse(f"--interval: {error}") from None

    async def act(homing: Homing) -> int:
        looks = _looks(rest_s, count)
        if delivery_id is None:
            await _all(homing, looks, as_json=as_json)
            return 0
        return await _one(homing, delivery_id, looks, as_json=as_json)

    try:
        code = with_homing(place, act)
    except KeyboardInterrupt:
        code = 0
    raise typer.Exit(code)


async def _looks(rest_s: float, count: int | None) -> AsyncIterator[int]:
    for number in itertools.count():
        yield number
        if count is not None and number + 1 >= count:
            return
        await asyncio.sleep(rest_s)


async def _all(homing: Homing, looks: AsyncIterator[int], *, as_json: bool) -> None:
    """A terminal is drawn again; a pipe or a program gets a line when something has changed."""
    before: Overview | None = None
    async for _ in looks:
        found = await overview(homing)
        now_ms = homing.engine.clock.now_ms()
        if is_terminal() and not as_json:
            typer.echo(CLEAR + "\n".join([at(now_ms), "", *overview_lines(found)]))
        elif found != before:
            if as_json:
                print_json({"at_ms": now_ms, "overview": found}, indent=0)
            else:
                typer.echo(visible(f"{at(now_ms)} {_line(found)}"))
        before = found


def _line(found: Overview) -> str:
    counts = ", ".join(f"{each.route} {each.status} {each.count}" for each in found.counts)
    paused = f"; paused: {', '.join(found.paused)}" if found.paused else ""
    return f"{counts or 'no deliveries'}; {len(found.workers)} worker(s){paused}"


async def _one(
    homing: Homing, delivery_id: str, looks: AsyncIterator[int], *, as_json: bool
) -> int:
    told: set[str] = set()
    async for _ in looks:
        delivery = await homing.ops.show(delivery_id)
        view = delivery_view(delivery, homing.engine.routes.get(delivery.route))
        lines = [line for line in await homing.explain(delivery_id) if line not in told]
        told.update(lines)
        if as_json and lines:
            print_json({"status": view.status, "state": view.state, "lines": lines}, indent=0)
        elif not as_json:
            for line in lines:
                typer.echo(visible(line))
        if delivery.is_terminal:
            return 1 if delivery.state == "failed" else 0
    return 0

"""`counters`: how many were accepted, delivered and failed over time."""

from __future__ import annotations

from typing import Annotated, cast, get_args

import typer

from homing.cli.options import AsJson, Place, command
from homing.cli.session import WrongUse, print_json, with_homing
from homing.cli.terminal import at, table
from homing.engine.process.counters import Point, Span, history
from homing.runtime.app import Homing
from homing.settings import span as duration

HEAD = ("from", "accepted", "delivered", "failed", "waiting", "p50", "p95")


def register(app: typer.Typer) -> None:
    app.command()(command(counters))


def counters(
    place: Place,
    span: Annotated[str, typer.Option(help="hour, day or week.")] = "hour",
    route: Annotated[str | None, typer.Option(help="Of this route only.")] = None,
    as_json: AsJson = False,
) -> None:
    """Numbers of deliveries over time.

    How many were accepted, delivered and failed, how many waited, and times to deliver.
    """
    if span not in (spans := get_args(Span)):
        raise WrongUse(f"--span: {span!r} is not known; use one of {', '.join(spans)}")

    async def act(homing: Homing) -> tuple[int, list[Point]]:
        await homing.ops.demand_route(route)
        now_ms = homing.engine.clock.now_ms()
        return await history(homing.store, now_ms, cast(Span, span), route)

    step_ms, points = with_homing(place, act)
    if as_json:
        print_json({"span": span, "step_ms": step_ms, "route": route, "points": points})
        return
    busy = [p for p in points if p.accepted or p.delivered or p.failed or p.waiting]
    typer.echo(table(HEAD, [_row(point) for point in busy]))


def _row(point: Point) -> tuple[object, ...]:
    return (
        at(point.at_ms),
        point.accepted,
        point.delivered,
        point.failed,
        point.waiting,
        *("" if ms is None else duration(ms / 1000) for ms in (point.p50_ms, point.p95_ms)),
    )

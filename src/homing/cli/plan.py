"""`homing plan`: draws what a retry policy does in an outage, as text or as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homing.cli.options import AsJson, Place, command
from homing.cli.session import print_json, program
from homing.domain.errors import InvalidRequest
from homing.domain.policy import Exponential, FullJitter, Ladder, Retry
from homing.engine.ops.planning import Forecast, forecast
from homing.settings import seconds, span

WIDTH = 60


def register(app: typer.Typer) -> None:
    app.command()(command(plan))


def plan(  # noqa: PLR0913, PLR0917 - each is an option
    place: Place,
    outage: Annotated[str, typer.Option(help="The length of the outage, e.g. 40m.")],
    ladder: Annotated[str | None, typer.Option(help="Steps, e.g. 1m,5m,30m.")] = None,
    exponential: Annotated[
        str | None, typer.Option(help="First wait, factor and cap, e.g. 1s,2,60s.")
    ] = None,
    jitter: Annotated[
        bool, typer.Option("--jitter", help="Full jitter: waits are random.")
    ] = False,
    max_attempts: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            help="The number of attempts; by default that of the route, or 5.",
        ),
    ] = None,
    route: Annotated[
        str | None, typer.Option(help="The policy of this route.", show_default=False)
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Also draw it into this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a retry policy does in an outage.

    When attempts are made, what survives, and what would become a dead letter.

    Without a policy, that of a route: the first one, or the one given by --route.
    """
    asked = _asked(ladder, exponential, max_attempts, jitter=jitter)
    if asked is not None and route is not None:
        raise typer.BadParameter("give either a policy or --route")
    retry = asked or _set(place, route, max_attempts)
    seen = forecast(retry, _duration("--outage", outage))
    if as_json:
        print_json(
            {
                "attempts_at_s": seen.attempts_at_s,
                "outage_s": seen.outage_s,
                "reach_s": seen.reach_s,
                "survives": seen.survives,
                "delivered_at_s": seen.delivered_at_s,
                "lost_window_s": seen.lost_window_s,
                "drawn": seen.drawn,
            }
        )
    else:
        for line in drawn(seen):
            typer.echo(line)
    if svg is not None:
        try:
            svg.write_text(picture(seen), encoding="utf-8")
        except OSError as error:
            raise InvalidRequest("--svg", f"{svg} cannot be written: {error.strerror}") from None
        typer.echo(f"drawn into {svg}", err=True)


def drawn(seen: Forecast) -> list[str]:
    """The timeline of a message accepted when the outage begins, then the result."""
    whole_s = max(seen.reach_s, seen.outage_s) or 1.0
    bar = round(seen.outage_s / whole_s * WIDTH)
    lines = [f"outage      |{'#' * bar}{'.' * (WIDTH - bar)}| {span(seen.outage_s)}"]
    for number, at_s in enumerate(seen.attempts_at_s, start=1):
        place = min(int(at_s / whole_s * WIDTH), WIDTH - 1)
        mark = ("o" if at_s >= seen.outage_s else "x").rjust(place + 1).ljust(WIDTH)
        end = " delivered" if at_s == seen.delivered_at_s else ""
        lines.append(f"attempt {number:<3} |{mark}| +{span(at_s)}{end}")
        if at_s == seen.delivered_at_s:
            break
    return [*lines, "", *verdict(seen)]


def verdict(seen: Forecast) -> list[str]:
    """What the policy promises, and what this outage costs."""
    outage, reach = span(seen.outage_s), span(seen.reach_s)
    if seen.drawn:
        lines = [
            f"Waits are random; on average the last attempt is made after {reach}.",
            f"About half of the messages accepted {reach} before an outage ends are delivered.",
        ]
    else:
        lines = [f"Every message survives an outage of up to {reach}."]
    if seen.survives:
        late = span((seen.delivered_at_s or 0.0) - seen.outage_s)
        what = "on average costs" if seen.drawn else "costs"
        lines.append(
            f"This outage of {outage} {what} no message: the first one is delivered {late} after"
            " it ends."
        )
    else:
        lines.append(
            f"In this outage of {outage}, messages accepted in its first"
            f" {span(seen.lost_window_s)} would become dead letters{' on average' * seen.drawn};"
            " later ones survive."
        )
    return lines


def picture(seen: Forecast) -> str:
    """The same as an SVG."""
    whole_s = max(seen.reach_s, seen.outage_s) or 1.0
    width = seen.outage_s / whole_s * 660
    title = f"An outage of {span(seen.outage_s)}, and attempts until +{span(seen.reach_s)}"
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 150" role="img" font-size="12">',
        f"<title>{title}</title>",
        '<rect width="720" height="150" fill="#fff"/>',
        f'<rect x="30" y="40" width="{width:.1f}" height="30" fill="#e8b4b4"/>',
        '<line x1="30" y1="70" x2="690" y2="70" stroke="#333"/>',
        f'<text x="30" y="25">{title}</text>',
    ]
    for number, at_s in enumerate(seen.attempts_at_s, start=1):
        x = 30 + at_s / whole_s * 660
        color = "#186a3b" if at_s >= seen.outage_s else "#b03030"
        parts.append(
            f'<circle cx="{x:.1f}" cy="70" r="5" fill="{color}">'
            f"<title>attempt {number}, +{span(at_s)}</title></circle>"
            f'<text x="{x:.1f}" y="92" text-anchor="middle">{number}</text>'
        )
    # Span texts hold digits and letters only: nothing here needs escaping.
    parts += [
        f'<text x="30" y="{120 + 18 * row}">{line}</text>'
        for row, line in enumerate(verdict(seen)[-2:])
    ]
    return "\n".join([*parts, "</svg>", ""])


def _asked(
    ladder: str | None, exponential: str | None, max_attempts: int | None, *, jitter: bool
) -> Retry | None:
    """The policy of the options; None when they name none."""
    if ladder is not None and exponential is not None:
        raise typer.BadParameter("give either --ladder or --exponential")
    inner: Ladder | Exponential
    if ladder is not None:
        inner = Ladder(tuple(_duration("--ladder", step) for step in ladder.split(",")))
    elif exponential is not None:
        inner = _exponential(exponential)
    elif jitter:
        raise typer.BadParameter("--jitter needs --ladder or --exponential")
    else:
        return None
    return Retry(FullJitter(inner) if jitter else inner, max_attempts or 5)


def _set(place: Place, name: str | None, max_attempts: int | None) -> Retry:
    """The policy of a route as it is in force; of several stages, that of the last one."""
    from msgspec.structs import replace

    from homing.plugins.programs import routes_of

    routes = {route.name: route for route in routes_of(program(place, reading=True))}
    if name is not None and name not in routes:
        there = ", ".join(routes)
        raise typer.BadParameter(f"--route: there is no route {name!r}; there is {there}")
    route = next(iter(routes.values())) if name is None else routes[name]
    retry = route.plan.stages[-1].retry
    return replace(retry, max_attempts=max_attempts or retry.max_attempts)


def _exponential(text: str) -> Exponential:
    parts = text.split(",")
    if len(parts) not in (2, 3):
        raise typer.BadParameter("--exponential: write the first wait, the factor and the cap")
    try:
        factor = float(parts[1])
    except ValueError:
        factor = 0.0
    if not 1.0 <= factor <= 1000.0:
        raise typer.BadParameter("--exponential: the factor is a number from 1 to 1000")
    cap_s = _duration("--exponential", parts[2]) if len(parts) == 3 else None
    return Exponential(_duration("--exponential", parts[0]), factor, cap_s)


def _duration(option: str, text: str) -> float:
    try:
        return seconds(text.strip())
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from None

"""`homing plan`: draws what a retry policy does in an outage, as text or as a picture."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Annotated

import typer

from homing.domain.errors import InvalidRequest
from homing.domain.policy import Exponential, FullJitter, Ladder, Retry, Schedule
from homing.engine.planning import Forecast, forecast
from homing.settings.durations import seconds

WIDTH = 60


def register(app: typer.Typer) -> None:
    app.command()(plan)


def plan(
    outage: Annotated[str, typer.Option(help="How long the other side is down, e.g. 40m.")],
    ladder: Annotated[str | None, typer.Option(help="Steps, e.g. 1m,5m,30m.")] = None,
    exponential: Annotated[
        str | None, typer.Option(help="First wait, factor and cap, e.g. 1s,2,60s.")
    ] = None,
    jitter: Annotated[bool, typer.Option(help="Full jitter: the longest waits are drawn.")] = False,
    max_attempts: Annotated[int, typer.Option(min=1, max=100)] = 5,
    svg: Annotated[Path | None, typer.Option(help="Also draw it into this file.")] = None,
) -> None:
    """When attempts fall, what survives the outage, and what would be dead-lettered."""
    retry = Retry(_schedule(ladder, exponential, jitter=jitter), max_attempts)
    seen = forecast(retry, _duration("outage", outage))
    for line in drawn(seen):
        typer.echo(line)
    if svg is not None:
        svg.write_text(picture(seen), encoding="utf-8")
        typer.echo(f"drawn into {svg}", err=True)


def drawn(seen: Forecast) -> list[str]:
    """The timeline of a message accepted as the outage begins, then the verdict."""
    span_s = max(seen.reach_s, seen.outage_s) or 1.0
    bar = round(seen.outage_s / span_s * WIDTH)
    lines = [f"outage     |{'#' * bar}{'.' * (WIDTH - bar)}| {span(seen.outage_s)}"]
    for number, at_s in enumerate(seen.attempts_at_s, start=1):
        place = min(round(at_s / span_s * WIDTH), WIDTH - 1)
        good = at_s >= seen.outage_s
        mark = "o" if good else "x"
        lines.append(
            f"attempt {number:<2} |{' ' * place}{mark}{' ' * (WIDTH - 1 - place)}| +{span(at_s)}"
            + (" delivered" if at_s == seen.delivered_at_s else "")
        )
        if at_s == seen.delivered_at_s:
            break
    lines.append("")
    lines.append(f"Every message survives an outage of up to {span(seen.reach_s)}.")
    if seen.survives:
        late = (seen.delivered_at_s or 0.0) - seen.outage_s
        lines.append(
            f"This outage of {span(seen.outage_s)} costs no message: the first one is delivered"
            f" {span(late)} after it ends."
        )
    else:
        lines.append(
            f"In this outage of {span(seen.outage_s)}, what is accepted in its first"
            f" {span(seen.lost_window_s)} would be dead-lettered; what comes later survives."
        )
    return lines


def picture(seen: Forecast) -> str:
    """The same as an SVG."""
    span_s = max(seen.reach_s, seen.outage_s) or 1.0
    width = seen.outage_s / span_s * 660
    title = f"outage {span(seen.outage_s)}; reach {span(seen.reach_s)}"
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 120" font-size="12">',
        f'<rect x="20" y="40" width="{width:.1f}" height="30" fill="#e8b4b4"/>',
        '<line x1="20" y1="70" x2="680" y2="70" stroke="#333"/>',
        f'<text x="20" y="30">{escape(title)}</text>',
    ]
    for number, at_s in enumerate(seen.attempts_at_s, start=1):
        x = 20 + at_s / span_s * 660
        color = "#2a7" if at_s >= seen.outage_s else "#b33"
        parts.append(f'<circle cx="{x:.1f}" cy="70" r="5" fill="{color}"/>')
        parts.append(f'<text x="{x:.1f}" y="95" text-anchor="middle">{number}</text>')
    parts.append("</svg>\n")
    return "\n".join(parts)


def span(time_s: float) -> str:
    whole = round(time_s)
    parts = [
        (whole // 86400, "d"),
        (whole // 3600 % 24, "h"),
        (whole // 60 % 60, "m"),
        (whole % 60, "s"),
    ]
    return "".join(f"{amount}{unit}" for amount, unit in parts if amount) or "0s"


def _schedule(ladder: str | None, exponential: str | None, *, jitter: bool) -> Schedule:
    if (ladder is None) == (exponential is None):
        raise InvalidRequest("ladder", "give either --ladder or --exponential")
    inner: Ladder | Exponential
    if ladder is not None:
        inner = Ladder(tuple(_duration("ladder", step) for step in ladder.split(",")))
    else:
        parts = (exponential or "").split(",")
        if len(parts) not in (2, 3):
            raise InvalidRequest("exponential", "write the first wait, the factor and the cap")
        cap_s = _duration("exponential", parts[2]) if len(parts) == 3 else None
        try:
            factor = float(parts[1])
        except ValueError:
            raise InvalidRequest("exponential", "the factor is a number") from None
        inner = Exponential(_duration("exponential", parts[0]), factor, cap_s)
    return FullJitter(inner) if jitter else inner


def _duration(field: str, text: str) -> float:
    try:
        return seconds(text.strip())
    except ValueError as error:
        raise InvalidRequest(field, str(error)) from None

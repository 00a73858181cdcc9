"""Pictures made here, as SVG: plain shapes with classes, so that the style sheet colours them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup
from msgspec import Struct

from homing.engine.ops.planning import Forecast
from homing.web.console.words import span

# About as wide as a chart is shown, so that its text has the size of the page's.
WIDTH = 320
HEIGHT = 120
LEFT = 48
RIGHT = WIDTH - 4
PLAN_WIDTH = 440
BOTTOM = 18


class Series(Struct, frozen=True):
    """One line of a chart; None where nothing is known."""

    name: str
    color: str
    values: Sequence[float | None]


def lines(series: Sequence[Series], label: str, first: str, last: str, unit: str = "") -> Markup:
    """A chart of values over time, with its largest value on the left."""
    known = [value for each in series for value in each.values if value is not None]
    top = max(_round_up(max(known, default=0.0)), 1.0 if unit else 2.0)
    parts = [
        Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
            WIDTH, HEIGHT, _told(series, label, unit)
        )
    ]
    for share in (0.0, 0.5, 1.0):
        y = _y(top * share, top)
        parts.append(
            Markup(
                '<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/>'
                '<text x="{}" y="{}" text-anchor="end">{}</text>'
            ).format(LEFT, RIGHT, y, y, LEFT - 6, y + 4, _short(top * share, unit))
        )
    for each in series:
        for piece in _pieces(each.values):
            places = [(_x(at, len(each.values)), _y(value, top)) for at, value in piece]
            if len(places) == 1:
                dot = Markup('<circle class="dot {}" cx="{}" cy="{}" r="2"/>')
                parts.append(dot.format(each.color, *places[0]))
            else:
                line = Markup('<polyline class="line {}" points="{}"/>')
                points = " ".join(f"{x},{y}" for x, y in places)
                parts.append(line.format(each.color, points))
    ends = Markup('<text x="{}" y="{}">{}</text><text x="{}" y="{}" text-anchor="end">{}</text>')
    parts.append(ends.format(LEFT, HEIGHT - 3, first, RIGHT, HEIGHT - 3, last))
    return Markup("").join([*parts, Markup("</svg>")])


def plan_picture(seen: Forecast) -> Markup:
    """When attempts come after the first one, and which of them an outage eats.

    The scale is logarithmic: retries begin in seconds and end in hours.
    """
    whole_s = max(seen.reach_s, seen.outage_s, 1.0)

    def x(at_s: float) -> float:
        return round(16 + math.log1p(at_s) / math.log1p(whole_s) * (PLAN_WIDTH - 40), 1)

    missed = sum(at_s < seen.outage_s for at_s in seen.attempts_at_s)
    told = f"{len(seen.attempts_at_s)} attempts in {span(seen.reach_s)}; an outage of"
    told += f" {span(seen.outage_s)} makes {missed} of them fail"
    parts = [
        Markup('<svg viewBox="0 0 {} 72" role="img" aria-label="{}">').format(PLAN_WIDTH, told)
    ]
    if seen.outage_s:
        band = Markup(
            '<rect class="outage" x="16" y="4" width="{}" height="40" rx="4"/>'
            '<text x="24" y="20">outage of {}</text>'
        )
        parts.append(band.format(round(x(seen.outage_s) - 16, 1), span(seen.outage_s)))
    axis = Markup('<line class="axis" x1="16" x2="{}" y1="44" y2="44"/>')
    parts.append(axis.format(PLAN_WIDTH - 16))
    last_x = float("-inf")
    for number, at_s in enumerate(seen.attempts_at_s, start=1):
        color = "good" if at_s >= seen.outage_s else "bad"
        dot = Markup('<circle class="dot {}" cx="{}" cy="44" r="6"><title>{}</title></circle>')
        parts.append(dot.format(color, x(at_s), f"attempt {number}, after {span(at_s)}"))
        if x(at_s) - last_x >= 46:
            last_x = x(at_s)
            text = Markup('<text x="{}" y="66" text-anchor="middle">{}</text>')
            parts.append(text.format(last_x, "0" if at_s == 0 else span(at_s)))
    return Markup("").join([*parts, Markup("</svg>")])


def _pieces(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """Runs of known values: a gap is not bridged."""
    pieces: list[list[tuple[int, float]]] = [[]]
    for at, value in enumerate(values):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append((at, value))
    return [piece for piece in pieces if piece]


def _x(at: int, count: int) -> float:
    return round(LEFT + at / max(count - 1, 1) * (RIGHT - LEFT), 1)


def _y(value: float, top: float) -> float:
    return round(10 + (1 - value / top) * (HEIGHT - BOTTOM - 16), 1)


def _round_up(value: float) -> float:
    """To 1, 2 or 4 times a power of ten: a scale that can be read."""
    if value <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 2, 4, 10) if power * step >= value)


def _short(value: float, unit: str) -> str:
    if unit == "s":
        return span(value) if value else "0"
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _told(series: Sequence[Series], label: str, unit: str) -> str:
    """The chart in words, for those who do not see it."""
    newest = [
        f"{each.name} {_short(known[-1], unit)}"
        for each in series
        if (known := [value for value in each.values if value is not None])
    ]
    return f"{label}; at the end: {', '.join(newest) or 'nothing'}"

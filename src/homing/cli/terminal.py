"""Text for people: aligned tables and times; colour on a terminal, plain text in a pipe.

Control characters in data are made visible before anything is coloured.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TextIO

import typer
from msgspec import Struct

from homing.domain.redaction import visible

# JSON escapes the first 32 itself; terminals also obey these.
_OBEYED = re.compile(r"[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
STATE_COLORS = {
    "delivered": "green",
    "failed": "red",
    "pending": "yellow",
    "in_flight": "cyan",
    "waiting": "cyan",
    "suppressed": "bright_black",
    "dismissed": "bright_black",
}
VERDICT_COLORS = {"good": "green", "warning": "yellow", "bad": "red"}
GAP = "  "
CUT = "…"


class Colored(Struct, frozen=True):
    """A text with its colour, where there is one for it."""

    text: str
    color: str | None


def is_terminal(stream: TextIO | None = None) -> bool:
    return (stream or sys.stdout).isatty()


def has_color(stream: TextIO | None = None) -> bool:
    """On a terminal, unless https://no-color.org or a terminal without colour says otherwise."""
    refused = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return is_terminal(stream) and not refused


def colored(text: object, color: str | None, stream: TextIO | None = None) -> str:
    shown = visible(str(text))
    return typer.style(shown, fg=color) if color and has_color(stream) else shown


def at(at_ms: int | None) -> str:
    """UTC, to the second."""
    if at_ms is None:
        return "-"
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError):
        return f"{at_ms} ms"


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    first_to_go: Sequence[str] = (),
) -> str:
    """Columns as wide as they need to be.

    On a terminal that is too narrow, columns are left out in the order of `first_to_go`, and then
    the last one is cut. A pipe gets everything.
    """
    cells = [[visible(_text(cell)) for cell in row] for row in [head, *rows]]
    widths = [max(cell_width(row[column]) for row in cells) for column in range(len(head))]
    shown = list(range(len(head)))
    room = shutil.get_terminal_size().columns if is_terminal() else None
    for name in first_to_go:
        if room is not None and _whole(widths, shown) > room:
            shown.remove(head.index(name))
    if room is not None:
        others = _whole(widths, shown[:-1]) + len(GAP)
        widths[shown[-1]] = min(widths[shown[-1]], max(room - others, len(head[shown[-1]])))
    lines = []
    for row, given in zip(cells, [head, *rows], strict=True):
        parts = []
        for column in shown:
            text, cell = _cut(row[column], widths[column]), given[column]
            padding = " " * (widths[column] - cell_width(text))
            color = cell.color if isinstance(cell, Colored) else None
            parts.append(colored(text, color) + padding)
        lines.append(GAP.join(parts).rstrip())
    if has_color():
        lines[0] = typer.style(lines[0], bold=True)
    return "\n".join(lines)


def cell_width(text: str) -> int:
    """How many columns of a terminal it takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def escaped_json(text: str) -> str:
    """The same JSON value, with nothing in it that a terminal acts upon."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def _text(cell: object) -> str:
    return cell.text if isinstance(cell, Colored) else str(cell)


def _whole(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[column] for column in shown) + len(GAP) * (len(shown) - 1)


def _cut(text: str, width: int) -> str:
    if cell_width(text) <= width:
        return text
    from rich.cells import set_cell_size

    return set_cell_size(text, width - 1).rstrip() + CUT

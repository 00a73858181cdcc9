"""Plain text for terminals: tables and times; control characters in data are made visible."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from homing.domain.redaction import visible

# JSON escapes the first 32 itself; terminals also obey these.
_OBEYED = re.compile(r"[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def at(at_ms: int | None) -> str:
    """UTC, to the second."""
    if at_ms is None:
        return "-"
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError):
        return f"{at_ms} ms"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as they need to be."""
    cells = [[visible(str(cell)) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )


def escaped_json(text: str) -> str:
    """The same JSON value, with nothing in it that a terminal acts upon."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found.group()):04x}", text)

"""Plain text for terminals: tables and times; control characters of others shown, not obeyed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from homing.domain.redaction import visible


def at(at_ms: int | None) -> str:
    if at_ms is None:
        return "-"
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as they need to be."""
    cells = [[visible(str(cell)) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )

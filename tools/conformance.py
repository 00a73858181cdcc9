"""Which tests cover which rows of a design's document: the rows that their docstrings name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"\b[A-Z]-[0-9]{3}\b")
MOST_ROWS = 3

ROWS: Mapping[str, tuple[str, ...]] = {
    "events": tuple(f"E-{number:03}" for number in range(1, 66)),
    "bookings": tuple(f"B-{number:03}" for number in range(1, 124)),
    "verdicts": tuple(f"O-{number:03}" for number in range(1, 136)),
}


def without_test(design: str) -> list[str]:
    """The rows that should have a test and have none."""
    found = covered_rows(design)
    return [row for row in ROWS[design] if row not in found]


def covered_rows(design: str) -> dict[str, list[str]]:
    """For each row the tests that name it, as `file::test`; a test may name three."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests/conformance" / design).glob("test_*.py")):
        for test, rows in _tests(path):
            if len(rows) > MOST_ROWS:
                raise ValueError(f"{path.name}::{test} names more than {MOST_ROWS} rows")
            for row in rows:
                found.setdefault(row, []).append(f"{path.name}::{test}")
    return found


def table(design: str) -> str:
    """The rows with their tests, as a table in Markdown."""
    found = covered_rows(design)
    lines = ["| row | tests |", "| --- | --- |"]
    for row in ROWS[design]:
        tests = ", ".join(f"`{test}`" for test in found.get(row, ()))
        lines.append(f"| {row} | {tests} |")
    return "\n".join(lines)


def _tests(path: Path) -> Iterator[tuple[str, list[str]]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("test_"):
            rows = ROW.findall(ast.get_docstring(node) or "")
            yield node.name, [row for row in dict.fromkeys(rows) if not row.startswith("X-")]

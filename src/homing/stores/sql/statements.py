"""Reads SQL from files, and extends statements to write many rows at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import chain
from typing import Any

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
# Not the parameter in `:word::text`.
_PART = re.compile(r":(\w+):(?!:)")
_ROW = re.compile(r"(?<=values )\((?:[^()]|\([^()]*\))*\)")


def load(package: str, name: str, parts: Mapping[str, str] | None = None) -> dict[str, str]:
    """The statements of one file by the name in the comment above each.

    `:word:` in a statement is replaced by that one of the `parts`, such as a list of columns, or by
    an earlier statement of that name.
    """
    text = files(package).joinpath("queries", name).read_text("utf-8")
    pieces = _NAME.split(fill(text, parts or {}))
    found: dict[str, str] = {}
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        plain = re.sub(r"^--.*\n?", "", body, flags=re.MULTILINE).strip().rstrip(";")
        found[title] = fill(plain, found)
    return found


def fill(text: str, parts: Mapping[str, str]) -> str:
    """The text with each `:word:` of the parts replaced by that part."""
    return _PART.sub(lambda found: parts.get(found[1], found[0]), text)


class Bulk:
    """A statement whose one `values (?, …)` row can be repeated for many rows.

    A wide statement releases Python's interpreter lock once; many narrow ones compete for it row
    by row. Widths are powers of two, so that few statements have to be kept prepared.
    """

    def __init__(self, statement: str, widest: int = 64) -> None:
        rows = _ROW.findall(statement)
        if len(rows) != 1:
            raise ValueError(f"one row of values is needed: {statement}")
        self._row: str = rows[0]
        self._statement = statement
        self._widest = widest
        self._made: dict[int, str] = {}

    def whole(self, rows: Sequence[Sequence[Any]]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Statements and parameters that write exactly these rows, in order."""
        start, left, width = 0, len(rows), self._widest
        while left:
            while width > left:
                width //= 2
            part = rows[start : start + width]
            yield self._wide(width), tuple(chain.from_iterable(part))
            start += width
            left -= width

    def padded(self, rows: Sequence[Sequence[Any]]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """As `whole`, in fewer statements: for reads, where repeated rows do no harm."""
        for start in range(0, len(rows), self._widest):
            part = rows[start : start + self._widest]
            width = 1 << (len(part) - 1).bit_length()
            again = (*part[-1],) * (width - len(part))
            yield self._wide(width), (*chain.from_iterable(part), *again)

    def _wide(self, width: int) -> str:
        made = self._made.get(width)
        if made is None:
            repeated = ", ".join([self._row] * width)
            made = self._made[width] = self._statement.replace(self._row, repeated)
        return made

"""A statement for any driver: parameters by number, and columns of rows as arrays."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from homing.stores.sql.columns import Row

T = TypeVar("T")

# Not the `::` of a cast.
_NAME = re.compile(r"(?<!:):(\w+)")


class Statement(Struct, frozen=True):
    """`parameters` are those of `$1`, `$2` and so on: an `Array`, a text, a number or None."""

    sql: str
    parameters: Sequence[Any] = ()


Steps: TypeAlias = Generator[Statement, list[Row], T]
"""Statements to run: it is sent the rows of each, or thrown its error, and returns its answer."""


def bind(template: str, values: Mapping[str, Any]) -> Statement:
    """`:name` in the template is the value of that name."""
    sql, names = _numbered(template)
    return Statement(sql, [values[name] for name in names])


@cache
def _numbered(template: str) -> tuple[str, tuple[str, ...]]:
    names = tuple(dict.fromkeys(_NAME.findall(template)))
    numbers = {name: number for number, name in enumerate(names, 1)}
    return _NAME.sub(lambda found: f"${numbers[found[1]]}", template), names

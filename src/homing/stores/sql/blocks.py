"""Rows of a batch as columns: a value that all rows share is bound once.

Both databases write blocks. SQLite binds the values that differ as wide `values`, PostgreSQL as
arrays. No kind of delivery is special: a batch of similar ones differs in few columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from homing.domain.delivery import Delivery
from homing.stores.sql.columns import COLUMNS, plain_receipt_at_ms


class Block(Struct, gc=False):
    """`number` rows of a table: one value for each name in `shared`, a list in `varying`."""

    table: str
    number: int
    shared: dict[str, Any]
    varying: dict[str, Sequence[Any]]


def block(table: str, columns: Mapping[str, Sequence[Any]], **shared: Any) -> Block:
    """Of columns of equal length, at least one row."""
    number = len(next(iter(columns.values())))
    varying = {}
    for name, values in columns.items():
        first = values[0]
        if values.count(first) == number:
            shared[name] = first
        else:
            varying[name] = values
    return Block(table, number, shared, varying)


delivery_columns: Callable[[Sequence[Delivery]], dict[str, list[Any]]] = eval(  # noqa: S307 - of the constants above alone
    "lambda deliveries: {"
    + ", ".join(f"{c.name!r}: [{c.taken or f'd.{c.name}'} for d in deliveries]" for c in COLUMNS)
    + "}",
    {"plain_receipt_at_ms": plain_receipt_at_ms},
)
"""The columns of these deliveries; compiled from the table, as in `row_maker`."""

"""Rows of a statement: columns as arrays, and what all rows share as one parameter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from homing.domain.delivery import TERMINAL_STATES
from homing.stores.sql.blocks import Block, block
from homing.stores.sql.columns import COLUMNS, FRESH, Row
from homing.stores.sql.postgres.arrays import Array, Kind

# Every column of an open or ended delivery, and its kind.
KINDS: dict[str, Kind] = {
    column.name: "text" if column.kind == "text" else "bigint" for column in COLUMNS
} | {
    "open_children": "bigint",
    "carries": "bigint",
    "payload_bytes": "bigint",
    "is_stale": "bigint",
    "done_by": "text",
    "done_since_ms": "bigint",
}
NAMES = tuple(KINDS)
# The kinds of other columns, by name; what is not listed is text.
_OTHER_KINDS: dict[str, Kind] = {
    "expires_at_ms": "bigint",
    "at_ms": "bigint",
    "number": "bigint",
    "over": "bigint",
    "raised": "bigint",
    "delta": "bigint",
    "payload": "bytea",
    "data": "bytea",
}
# In these columns the rows of a batch differ as a rule; in all others they are mostly the same.
_OWN = frozenset(
    {
        *("id", "over", "key", "created_at_ms", "updated_at_ms", "due_at_ms", "claimed_at_ms"),
        *("ended_at_ms", "committed_at_ms", "accepted_at_ms", "payload_bytes", "done_since_ms"),
        *("delivery_id", "fingerprint", "expires_at_ms", "record", "payload", "data", "address"),
        *("at_ms", "value"),
    }
)

ATTEMPT_COLUMNS = ("delivery_id", "number", "route", "ended_at_ms", "record")
PARTS = {
    "columns": ", ".join(NAMES),
    "fresh": ", ".join(f"d.{name}" for name in FRESH),
}


def kind_of(name: str) -> Kind:
    return KINDS.get(name) or _OTHER_KINDS.get(name, "text")


def has_ended(state: str) -> bool:
    """Whether a delivery of this state is in `homing_ended`."""
    return state in TERMINAL_STATES


def rows_block(table: str, names: Sequence[str], rows: Sequence[Row]) -> Block:
    """Of at least one row."""
    return block(table, dict(zip(names, zip(*rows, strict=True), strict=True)))


def arrays(prefix: str, names: Sequence[str], rows: Sequence[Row]) -> dict[str, Array]:
    """The columns of the rows, by the names of their parameters."""
    by_column = zip(*rows, strict=True) if rows else [()] * len(names)
    return {
        f"{prefix}_{name}": Array(kind_of(name), values)
        for name, values in zip(names, by_column, strict=True)
    }


def has_shared(rows: Block) -> bool:
    """Whether the rows differ in no columns but those in which rows differ as a rule.

    There are two forms of each statement: in one all these other columns are single parameters,
    in the other all columns are arrays. More forms would be too many plans to keep prepared. For
    the server, to take 35 arrays apart is half of the work of an insert.
    """
    return _OWN.issuperset(rows.varying)


def parameters_of(rows: Block) -> dict[str, Any]:
    """By name, with the table before it."""
    table, number = rows.table, rows.number
    are_shared = has_shared(rows)
    values: dict[str, Any] = {
        f"{table}_{name}": Array(kind_of(name), column) for name, column in rows.varying.items()
    }
    for name, value in rows.shared.items():
        is_single = are_shared and name not in _OWN
        values[f"{table}_{name}"] = value if is_single else Array(kind_of(name), [value] * number)
    return values


@cache
def source(table: str, names: Sequence[str], *, are_shared: bool) -> str:
    """The rows as a table `w` to select from."""
    own = [name for name in names if not are_shared or name in _OWN]
    taken = ", ".join(f"@{table}_{name}::{kind_of(name)}[]" for name in own)
    if len(own) == len(names):
        return f"unnest({taken}) as w ({', '.join(names)})"
    shared = [name for name in names if name not in own]
    selected = ", ".join(["o.*", *[f"@{table}_{name}::{kind_of(name)}" for name in shared]])
    rows = f"unnest({taken}) as o ({', '.join(own)})"
    return f"(select {selected} from {rows}) as w ({', '.join([*own, *shared])})"  # noqa: S608 - constants


def names_of(rows: Block) -> tuple[str, ...]:
    """Always in the same order, so that the same columns make the same statement."""
    return tuple(sorted([*rows.shared, *rows.varying]))

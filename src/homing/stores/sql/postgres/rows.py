"""Rows of a statement: columns as arrays, and what all rows share as one parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

from homing.domain.delivery import TERMINAL_STATES
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

PARTS = {
    "columns": ", ".join(NAMES),
    "fresh": ", ".join(f"d.{name}" for name in FRESH),
}


def kind_of(name: str) -> Kind:
    return KINDS.get(name) or _OTHER_KINDS.get(name, "text")


def has_ended(state: str) -> bool:
    """Whether a delivery of this state is in `homing_ended`."""
    return state in TERMINAL_STATES


def arrays(prefix: str, names: Sequence[str], rows: Sequence[Row]) -> dict[str, Array]:
    """The columns of the rows, by the names of their parameters."""
    by_column = zip(*rows, strict=True) if rows else [()] * len(names)
    return {
        f"{prefix}_{name}": Array(kind_of(name), values)
        for name, values in zip(names, by_column, strict=True)
    }


class Source(NamedTuple):
    """Rows of a statement as a table `w` to select from, without their values.

    It has one of three forms: one row, all of whose columns are single parameters; rows that differ
    in no columns but those in which rows differ as a rule; and rows all of whose columns are
    arrays. More forms would be too many plans to keep prepared. For the server, to take 35 arrays
    apart is half of the work of an insert.
    """

    table: str
    names: tuple[str, ...]
    form: Literal["one row", "alike", "arrays"]

    @property
    def sql(self) -> str:
        table, names, form = self
        arrays = [n for n in names if form == "arrays" or (form == "alike" and n in _OWN)]
        single = [name for name in names if name not in arrays]
        selected = [f":{table}_{name}::{kind_of(name)}" for name in single]
        if not arrays:
            return f"(select {', '.join(selected)}) as w ({', '.join(names)})"
        taken = ", ".join(f":{table}_{name}::{kind_of(name)}[]" for name in arrays)
        unnested = f"unnest({taken}) as o ({', '.join(arrays)})"
        columns = ", ".join([*arrays, *single])
        return f"(select {', '.join(['o.*', *selected])} from {unnested}) as w ({columns})"  # noqa: S608 - constants


def take(table: str, columns: Mapping[str, Sequence[Any]], values: dict[str, Any]) -> Source:
    """Columns of equal length, at least one row. Their values are added as parameters."""
    names = tuple(columns)
    places = _places(table, names)
    number = len(columns[names[0]])
    if number == 1:
        for (parameter, _, _), column in zip(places, columns.values(), strict=True):
            values[parameter] = column[0]
        return Source(table, names, "one row")
    are_alike = all(
        is_own or column.count(column[0]) == number
        for (_, _, is_own), column in zip(places, columns.values(), strict=True)
    )
    for (parameter, kind, is_own), column in zip(places, columns.values(), strict=True):
        is_array = is_own or not are_alike
        values[parameter] = Array(kind, column) if is_array else column[0]
    return Source(table, names, "alike" if are_alike else "arrays")


@cache
def _places(table: str, names: tuple[str, ...]) -> list[tuple[str, Kind, bool]]:
    """The parameter of each column, its kind, and whether rows differ in it as a rule."""
    return [(f"{table}_{name}", kind_of(name), name in _OWN) for name in names]

"""Values as PostgreSQL is given them, and the lists of columns in its statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from homing.domain.delivery import TERMINAL_STATES, Attempt, Fact
from homing.stores.codec import encode, encode_text
from homing.stores.sql.columns import COLUMNS, FRESH, Row, row_maker
from homing.stores.sql.postgres.arrays import Array, Kind

CARRIES_PAYLOAD = 1
CARRIES_RESULTS = 2
CARRIES_ATTEMPT = 4

delivery_row = row_maker()
"""A delivery's values in the order of its columns."""

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
# The kinds of columns of the other tables, by name.
_OTHER_KINDS: dict[str, Kind] = {
    "free_by_ms": "bigint",
    "expires_at_ms": "bigint",
    "at_ms": "bigint",
    "number": "bigint",
    "over": "bigint",
    "payload": "bytea",
    "data": "bytea",
    "attempt_number": "bigint",
    "attempt_ended_at_ms": "bigint",
    "result_data": "bytea",
    "term_expires_at_ms": "bigint",
    "fact_at_ms": "bigint",
    "is_put": "bigint",
}


def parameters(prefix: str, columns: Sequence[str]) -> str:
    return ", ".join(f"@{prefix}_{name}::{_kind(name)}[]" for name in columns)


# In these columns the rows of a batch differ as a rule; in all others they are mostly the same.
_OWN = frozenset(
    {
        *("id", "over", "key", "created_at_ms", "updated_at_ms", "due_at_ms", "claimed_at_ms"),
        *("ended_at_ms", "committed_at_ms", "accepted_at_ms", "payload_bytes", "done_since_ms"),
        *("delivery_id", "name", "fingerprint", "free_by_ms", "record", "payload", "data"),
        *("address", "new_record", "attempt_number", "attempt_ended_at_ms", "attempt_record"),
        *("result_data", "term_key", "term_expires_at_ms", "fact_key", "fact_at_ms", "fact_value"),
    }
)


def row_source(
    prefix: str, columns: tuple[str, ...], rows: Sequence[Row]
) -> tuple[str, dict[str, Any]]:
    """Rows as a table to select from, and its parameters.

    What all rows share is one parameter and not an array: for the server, to take 35 arrays apart
    is half of the work of an insert.
    """
    by_column = list(zip(*rows, strict=True))
    number = len(rows)
    is_uniform = all(
        values.count(values[0]) == number
        for name, values in zip(columns, by_column, strict=True)
        if name not in _OWN
    )
    given: dict[str, Any] = {
        f"{prefix}_{name}": values[0]
        if is_uniform and name not in _OWN
        else Array(_kind(name), values)
        for name, values in zip(columns, by_column, strict=True)
    }
    return _source(prefix, columns, is_uniform=is_uniform), given


@cache
def _source(prefix: str, columns: tuple[str, ...], *, is_uniform: bool) -> str:
    own = tuple([name for name in columns if not is_uniform or name in _OWN])
    source = f"unnest({parameters(prefix, own)})"
    if len(own) == len(columns):
        return source
    selected = ", ".join(
        f"o.{name}" if name in own else f"@{prefix}_{name}::{_kind(name)}" for name in columns
    )
    return f"(select {selected} from {source} as o ({', '.join(own)}))"  # noqa: S608 - constants


def arrays(prefix: str, columns: Sequence[str], rows: Sequence[Row]) -> dict[str, Array]:
    """The columns of the rows, by the names of their parameters."""
    by_column = zip(*rows, strict=True) if rows else [()] * len(columns)
    return {
        f"{prefix}_{name}": Array(_kind(name), values)
        for name, values in zip(columns, by_column, strict=True)
    }


def _kind(name: str) -> Kind:
    return KINDS.get(name) or _OTHER_KINDS.get(name, "text")


def has_ended(state: str) -> bool:
    """Whether a delivery of this state is in `homing_ended`."""
    return state in TERMINAL_STATES


def attempt_row(route: str, attempt: Attempt) -> Row:
    """In the order of ATTEMPT_COLUMNS."""
    number, ended_at_ms = attempt.number, attempt.ended_at_ms
    return (attempt.delivery_id, number, route, ended_at_ms, encode_text(attempt))


ATTEMPT_COLUMNS = ("delivery_id", "number", "route", "ended_at_ms", "record")


class Facts:
    """Facts of one commit: the last value of a key counts."""

    def __init__(self) -> None:
        self._facts: dict[tuple[str, str], Fact] = {}

    def __bool__(self) -> bool:
        return bool(self._facts)

    def note(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            self._facts[fact.kind, fact.key] = fact

    def parts(self, values: dict[str, Any]) -> Iterator[str]:
        """The parts of a statement that write them; their values are added."""
        facts = self._facts.values()
        put = [
            (fact.kind, fact.key, fact.at_ms, encode(fact.value).decode())
            for fact in facts
            if fact.value is not None
        ]
        if put:
            values.update(arrays("fact", ("kind", "key", "at_ms", "value"), put))
            yield "facts"
        dropped = [(fact.kind, fact.key) for fact in facts if fact.value is None]
        if dropped:
            values.update(arrays("dropped", ("kind", "key"), dropped))
            yield "dropped_facts"


PARTS = {
    "columns": ", ".join(NAMES),
    "fresh": ", ".join(f"d.{name}" for name in FRESH),
}

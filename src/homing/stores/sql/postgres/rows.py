"""Values as PostgreSQL is given them, and the lists of columns in its statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

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
}


def parameters(prefix: str, columns: Sequence[str]) -> str:
    return ", ".join(f"@{prefix}_{name}::{_kind(name)}[]" for name in columns)


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

    def parts(self, values: dict[str, Array]) -> Iterator[str]:
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
    "open_rows": parameters("open", NAMES),
    "ended_rows": parameters("ended", NAMES),
    "fresh": ", ".join(f"d.{name}" for name in FRESH),
}

"""Deliveries of states, or with errors, that few have, found by the indexes of those.

A listing along the creation time would look at all the newer ones of other kinds first.
"""

from __future__ import annotations

from typing import Any

from homing.domain.delivery import CLAIMABLE_STATES, State
from homing.ports import Query
from homing.stores.sql.asking import Ask, Steps
from homing.stores.sql.dialect import Dialect
from homing.stores.sql.filters import STATES, states_of

# So many are read and sorted in a few milliseconds.
FEW = 2_000


def states_to_look_up(dialect: Dialect, query: Query) -> set[State]:
    """The states of which it must be looked up how many deliveries have them; empty: none."""
    states: set[State] = states_of(query) or ({*STATES} if query.route is not None else set())
    if states <= {"failed"} and not (states and query.error_class):
        return set()
    if dialect.has_open_apart and not states.isdisjoint(CLAIMABLE_STATES):
        return set()
    return states


def few_rows(dialect: Dialect, query: Query, states: set[State]) -> Steps[list[Any] | None]:
    """The rows of all deliveries that can match; None: they are many, or the indexes do not have
    them all (of what has ended at no time, or is never due)."""
    error_class = query.error_class if states == {"failed"} else None
    given = {"route": query.route, "error_class": error_class}
    name = "numbers_ended" if states.isdisjoint(CLAIMABLE_STATES) else "numbers"
    numbers: dict[State, int] = dict((yield Ask(dialect.sql[name], given)))
    if any(numbers.get(state, 0) > FEW for state in states):
        return None
    rows: list[Any] = []
    for state in sorted(states):
        name = "rows_of_error" if error_class else f"rows_of_{state}"
        statement = dialect.sql.get(name) or dialect.sql["rows_of_ended"]
        found = yield Ask(statement, given | {"state": state})
        if len(found) != numbers.get(state, 0):
            return None
        rows += [row for (row,) in found]
    return rows

"""Deliveries of states, or with errors, that few have, found by the indexes of those.

A listing along the creation time would look at all the newer ones of other kinds first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

from homing.domain.delivery import CLAIMABLE_STATES, State
from homing.stores.sql.sqlite.rows import PARTS
from homing.stores.sql.statements import load

_SQL = load(__package__, "read.sql", PARTS)
_NUMBERS = f"select d.route, d.state, sum(d.number) {_SQL['standing']} group by d.route, d.state"
# So many are read and sorted in a few milliseconds.
FEW = 2_000


def few_of_states(
    connection: sqlite3.Connection, states: Collection[State], route: str | None
) -> list[int] | None:
    """The rows of all deliveries of these states, and of this route; None: they are many, or the
    indexes do not have them all (of what has ended at no time, or is never due)."""
    numbers = dict.fromkeys(states, 0)
    for of_route, state, number in connection.execute(_NUMBERS):
        # The indexes of what is open do not tell routes apart.
        if state in numbers and (route in (None, of_route) or state in CLAIMABLE_STATES):
            numbers[state] += number
    if any(number > FEW for number in numbers.values()):
        return None
    given = {"route": route}
    seqs: list[int] = []
    for state, number in numbers.items():
        found = connection.execute(_seqs_of(state), given).fetchall()
        if len(found) != number:
            return None
        seqs += [seq for (seq,) in found]
    return seqs


def few_of_error(
    connection: sqlite3.Connection, error_class: str, route: str | None
) -> list[int] | None:
    """The rows of all dead letters with this error, and of this route; None: they are many."""
    given = {"error_class": error_class, "route": route}
    [(number,)] = connection.execute(_SQL["number_of_error"], given).fetchall()
    if number > FEW:
        return None
    return [seq for (seq,) in connection.execute(_SQL["seqs_of_error"], given)]


def _seqs_of(state: State) -> str:
    return _SQL.get(f"seqs_of_{state}") or _SQL["seqs_of_ended"].replace(":state:", state)

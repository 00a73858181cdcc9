"""Translates queries into conditions: as data, with values always bound."""

from __future__ import annotations

from typing import Any, get_args

from homing.domain.delivery import State
from homing.ports import Cursor, Facet, GroupBy, Query
from homing.stores.queries import EQUAL_FIELDS, FACET_FIELDS
from homing.stores.sql.columns import COLUMNS, PLACES, Column

CONDITIONS = {name: f"d.{name} = :{name}" for name in (*EQUAL_FIELDS, "error_class")} | {
    "created_from_ms": "d.created_at_ms >= :created_from_ms",
    "created_before_ms": "d.created_at_ms < :created_before_ms",
    "updated_from_ms": "d.updated_at_ms >= :updated_from_ms",
}
# Literals, not parameters: otherwise a database does not use a partial index.
NOTICES_DUE = {True: "d.has_notices_due = 1", False: "d.has_notices_due = 0"}
ATTEMPTED = {True: "d.attempts_spent > 0", False: "d.attempts_spent = 0"}
TOP_ONLY = "d.parent_id is null"
_A_RETRYING_CHILD = (
    "exists (select 1 from homing_deliveries as c"
    " where c.parent_id = d.id and c.state = 'pending' and c.attempts_spent > 0)"
)
RETRYING_CHILDREN = {True: _A_RETRYING_CHILD, False: f"not {_A_RETRYING_CHILD}"}
STATES: dict[State, str] = {
    "pending": "d.state = 'pending'",
    "in_flight": "d.state = 'in_flight'",
    "waiting": "d.state = 'waiting'",
    "delivered": "d.state = 'delivered'",
    "suppressed": "d.state = 'suppressed'",
    "failed": "d.state = 'failed'",
    "dismissed": "d.state = 'dismissed'",
}


def _group_word(column: Column) -> str:
    """A missing value is the empty text, and a flag is `true` or `false`."""
    if column.kind == "integer":
        return f"case d.{column.name} when 1 then 'true' else 'false' end"
    return f"coalesce(d.{column.name}, '')" if column.nullable else f"d.{column.name}"


GROUPS: dict[GroupBy, str] = {
    name: _group_word(COLUMNS[PLACES[name]]) for name in get_args(GroupBy)
}
_COUNTED: frozenset[GroupBy] = frozenset({"route", "queue", "state"})
_COUNTED_OF_FAILED: frozenset[GroupBy] = _COUNTED | {"error_class", "failed_because"}
BELOW = "(d.created_at_ms, d.id) < (:seen_at_ms, :seen_id)"
ABOVE = "(d.created_at_ms, d.id) > (:seen_at_ms, :seen_id)"
# By whether the newer ones are asked for: the last one that is looked at.
EDGES = {
    False: "(d.created_at_ms, d.id) >= (:edge_at_ms, :edge_id)",
    True: "(d.created_at_ms, d.id) <= (:edge_at_ms, :edge_id)",
}
# By whether the newer ones are asked for; the nearest come first.
ORDERS = {
    False: "order by d.created_at_ms desc, d.id desc limit :limit",
    True: "order by d.created_at_ms, d.id limit :limit",
}


def conditions(query: Query) -> tuple[list[str], dict[str, Any]]:
    """The conditions, and the values to bind. That of the recipient is part of where to look."""
    values: dict[str, Any] = {}
    wanted: list[str] = []
    for name, condition in CONDITIONS.items():
        value = getattr(query, name)
        if value is not None:
            wanted.append(condition)
            values[name] = value
    if query.notices_due is not None:
        wanted.append(NOTICES_DUE[query.notices_due])
    if query.top_only:
        wanted.append(TOP_ONLY)
    if query.facets is not None:
        wanted += _facets(query.facets, values)
    if query.recipient is not None:
        values["recipient"] = query.recipient
    return wanted, values


def behind(cursor: Cursor | None, wanted: list[str], values: dict[str, Any]) -> bool:
    """Add the condition of the cursor; returns whether newer deliveries are wanted."""
    newer = cursor is not None and cursor.newer
    if cursor is not None:
        wanted.append(ABOVE if newer else BELOW)
        values |= {"seen_at_ms": cursor.created_at_ms, "seen_id": cursor.delivery_id}
    return newer


def _facets(facets: tuple[Facet, ...], values: dict[str, Any]) -> list[str]:
    """Any of them; a state that all of them have is a separate condition, for the index."""
    if not facets:
        return ["false"]
    alternatives = " or ".join(
        f"({_facet(number, facet, values)})" for number, facet in enumerate(facets)
    )
    states = {facet.state for facet in facets}
    common = [STATES[state] for state in states] if len(states) == 1 else []
    return [*common, f"({alternatives})"]


def _facet(number: int, facet: Facet, values: dict[str, Any]) -> str:
    parts = [STATES[facet.state]]
    if facet.attempted is not None:
        parts.append(ATTEMPTED[facet.attempted])
    for name in FACET_FIELDS:
        value = getattr(facet, name)
        if value is not None and name != "attempted":
            values[f"{name}_{number}"] = value
            parts.append(f"d.{name} = :{name}_{number}")
    for place, route in enumerate(facet.except_routes):
        values[f"except_route_{number}_{place}"] = route
        parts.append(f"d.route <> :except_route_{number}_{place}")
    if facet.retrying_children is not None:
        parts.append(RETRYING_CHILDREN[facet.retrying_children])
    return " and ".join(parts)


def is_counted(query: Query, by: tuple[GroupBy, ...]) -> bool:
    """Whether the maintained numbers answer it: by route, queue and state, and for dead letters by
    error class and reason, too."""
    of_failed = is_of_failed(query)
    facets = [
        Facet(
            state=facet.state,
            route=facet.route,
            except_routes=facet.except_routes,
            failed_because=facet.failed_because if of_failed else None,
        )
        for facet in query.facets or ()
    ]
    asked = Query(
        route=query.route,
        # The empty text means none there.
        error_class=(query.error_class or None) if of_failed else None,
        facets=None if query.facets is None else tuple(facets),
    )
    return query == asked and not {*by} - (_COUNTED_OF_FAILED if of_failed else _COUNTED)


def states_of(query: Query) -> set[State]:
    """The states that its facets select."""
    return {facet.state for facet in query.facets or ()}


def is_of_failed(query: Query) -> bool:
    """Whether it selects dead letters only."""
    return states_of(query) == {"failed"}


def newest_failures_first(query: Query) -> str:
    """The order in which a bounded count reads recent dead letters: along their index."""
    lately = is_of_failed(query) and query.updated_from_ms is not None
    return "order by d.updated_at_ms desc" if lately else ""


def is_narrow(query: Query) -> bool:
    """Whether it selects one address, one parent or one process, or due notices."""
    fields = (query.recipient, query.parent_id, query.clone_of, query.holder, query.notices_due)
    return any(field is not None for field in fields)

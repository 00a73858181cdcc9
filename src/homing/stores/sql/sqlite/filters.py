"""Which rows a query means: conditions as data, values always bound."""

from __future__ import annotations

from typing import Any

from homing.domain.delivery import State
from homing.ports import Facet, GroupBy, Query

DELIVERIES = "from homing_deliveries as d"
# The address first, whatever the planner thinks of it.
OF_RECIPIENT = (
    "from homing_recipients as r cross join homing_deliveries as d"
    " on d.seq = r.seq and r.address = :recipient"
)

CONDITIONS = {
    "route": "d.route = :route",
    "source": "d.source = :source",
    "key": "d.key = :key",
    "topic": "d.topic = :topic",
    "error_class": "d.error_class = :error_class",
    "parent_id": "d.parent_id = :parent_id",
    "clone_of": "d.clone_of = :clone_of",
    "holder": "d.holder = :holder",
    "created_from_ms": "d.created_at_ms >= :created_from_ms",
    "created_before_ms": "d.created_at_ms < :created_before_ms",
}
# Words, not parameters: only so does SQLite know that a partial index will do.
OWING = {True: "d.owing = 1", False: "d.owing = 0"}
_A_RETRYING_CHILD = (
    "exists (select 1 from homing_deliveries as c"
    " where c.parent_id = d.id and c.state = 'pending' and c.attempted = 1)"
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
GROUPS: dict[GroupBy, str] = {
    "route": "d.route",
    "state": "d.state",
    "failed_because": "coalesce(d.failed_because, '')",
    "error_class": "coalesce(d.error_class, '')",
    "stage": "d.stage",
    "required": "case d.required when 1 then 'true' else 'false' end",
    "lane": "d.lane",
    "source": "d.source",
}
BELOW = "(d.created_at_ms, d.id) < (:seen_at_ms, :seen_id)"


def conditions(query: Query) -> tuple[str, list[str], dict[str, Any]]:
    """Where to look, what must hold, and the values to bind."""
    values: dict[str, Any] = {}
    wanted: list[str] = []
    for name, condition in CONDITIONS.items():
        value = getattr(query, name)
        if value is not None:
            wanted.append(condition)
            values[name] = value
    if query.owing is not None:
        wanted.append(OWING[query.owing])
    if query.top_only:
        wanted.append("d.parent_id is null")
    if query.facets is not None:
        wanted += _facets(query.facets, values)
    if query.recipient is None:
        return DELIVERIES, wanted, values
    values["recipient"] = query.recipient
    return OF_RECIPIENT, wanted, values


def _facets(facets: tuple[Facet, ...], values: dict[str, Any]) -> list[str]:
    """Any of them; a state that they have in common is said once, for the index."""
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
    for name in ("stage", "attempted", "failed_because", "phase"):
        value = getattr(facet, name)
        if value is not None:
            values[f"{name}_{number}"] = value
            parts.append(f"d.{name} = :{name}_{number}")
    if facet.retrying_children is not None:
        parts.append(RETRYING_CHILDREN[facet.retrying_children])
    return " and ".join(parts)

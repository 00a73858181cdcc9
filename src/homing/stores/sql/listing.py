"""Pages of deliveries, newest first, and numbers of them.

A listing goes along the creation time, or through an index that has few deliveries (`few.py`).
`page_within` ends where it has looked at enough: a filter that matches little would read all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from homing.domain.delivery import CLAIMABLE_STATES, State
from homing.ports import Cursor, GroupBy, Page, Query
from homing.stores.queries import page_of, page_to_edge, widths
from homing.stores.sql.asking import Ask, Steps, listed
from homing.stores.sql.dialect import Dialect
from homing.stores.sql.few import few_rows, states_to_look_up
from homing.stores.sql.filters import (
    EDGES,
    GROUPS,
    ORDERS,
    STATES,
    behind,
    conditions,
    is_narrow,
    is_of_failed,
    newest_failures_first,
    states_of,
)
from homing.stores.sql.reading import delivery_in
from homing.stores.sql.statements import fill


class Chosen(Struct):
    """Where deliveries are looked for, what must hold, and the values to bind."""

    source: str
    wanted: list[str]
    values: dict[str, Any]
    # Few are looked at, whatever the filter.
    is_few: bool = False
    # If few have these states, only those are looked at.
    states: set[State] = set()


def page(dialect: Dialect, query: Query, cursor: Cursor | None, limit: int) -> Steps[Page]:
    chosen = _choose(dialect, query)
    if not chosen.states:
        return (yield from _page(dialect, chosen, cursor, limit, alone=True))
    chosen = yield from _look_up_states(dialect, query, chosen)
    return (yield from _page(dialect, chosen, cursor, limit))


def page_within(
    dialect: Dialect, query: Query, cursor: Cursor | None, limit: int, look_at: int
) -> Steps[Page]:
    chosen = yield from _look_up_states(dialect, query, _choose(dialect, query))
    if query.recipient is not None and (yield from _has_many(dialect, query.recipient)):
        # Too many to be sorted; so many that they are met soon among the others.
        wanted = [*chosen.wanted, dialect.sql["for_recipient"]]
        chosen = Chosen(dialect.sql["deliveries"], wanted, chosen.values)
    if chosen.is_few:
        return (yield from _page(dialect, chosen, cursor, limit))
    for first in widths(look_at):
        edge = yield from _edge(dialect, query, cursor, first)
        found = yield from _page(dialect, _up_to(chosen, edge), cursor, limit)
        if edge is None or len(found.items) == limit or first == look_at:
            return page_to_edge(found, cursor, edge)
    raise AssertionError("the last width is that of `look_at`")


def count(
    dialect: Dialect,
    query: Query,
    by: tuple[GroupBy, ...],
    most: int | None,
    *,
    counted: bool,
) -> Steps[dict[tuple[str, ...], int]]:
    """`most`: it ends when so many were found. `counted`: the maintained numbers answer it."""
    chosen = _choose(dialect, query)
    source, where, number = chosen.source, _where(chosen.wanted), "count(*)"
    # By the columns and not by their words, so that an index gives the groups in order.
    columns = ", ".join([f"d.{name}" for name in by])
    if counted:
        source, number = dialect.sql["standing"], "cast(coalesce(sum(d.number), 0) as bigint)"
    elif most is not None:
        order = newest_failures_first(query)
        bounded = f"select {columns or '1'} {source} {where} {order} limit {int(most)}"
        source, where = f"from ({bounded}) as d", ""
    selected = ", ".join([*[GROUPS[name] for name in by], number])
    grouped = f"group by {columns} having {number} > 0" if by else ""
    rows = yield Ask(f"select {selected} {source} {where} {grouped}", chosen.values, alone=True)
    counts: dict[tuple[str, ...], int] = {}
    for *words, found in rows:
        # What is not there and what is empty have the same word.
        counts[tuple(words)] = counts.get(tuple(words), 0) + found
    return counts


def _choose(dialect: Dialect, query: Query) -> Chosen:
    wanted, values = conditions(query)
    chosen = Chosen(_source(dialect, query), wanted, values, is_narrow(query))
    if dialect.has_open_apart and query.facets and states_of(query) <= CLAIMABLE_STATES:
        chosen.is_few = True
    if not chosen.is_few:
        chosen.states = states_to_look_up(dialect, query)
    return chosen


def _source(dialect: Dialect, query: Query) -> str:
    """The tables to look in, as a `from` clause."""
    index = None
    if query.recipient is not None:
        return dialect.sql["deliveries_of_recipient"]
    if query.holder is not None and states_of(query) == {"in_flight"}:
        index = "leases"
    elif query.updated_from_ms is not None and query.notices_due:
        index = "notices_due_since"
    elif query.updated_from_ms is not None and is_of_failed(query):
        index = "failed_since"
    if index is None:
        return dialect.sql["deliveries"]
    return fill(dialect.sql["deliveries_by_index"], {"index": index})


def _look_up_states(dialect: Dialect, query: Query, chosen: Chosen) -> Steps[Chosen]:
    if not chosen.states:
        return chosen
    rows = yield from few_rows(dialect, query, chosen.states)
    if rows is None:
        return chosen
    wanted, values = [*chosen.wanted, dialect.sql["among"]], chosen.values | {"rows": listed(rows)}
    return Chosen(dialect.sql["deliveries"], wanted, values, is_few=True)


def _page(
    dialect: Dialect, chosen: Chosen, cursor: Cursor | None, limit: int, *, alone: bool = False
) -> Steps[Page]:
    wanted, values = [*chosen.wanted], chosen.values | {"limit": max(limit, 0) + 1}
    newer = behind(cursor, wanted, values)
    is_of_recipient = chosen.source == dialect.sql["deliveries_of_recipient"]
    statement = fill(
        dialect.sql["page_of_recipient" if is_of_recipient else "page"],
        {"from": chosen.source, "where": _where(wanted), "order": ORDERS[newer]},
    )
    rows = yield Ask(statement, values, alone)
    return page_of([delivery_in(row) for row in rows], cursor, limit)


def _up_to(chosen: Chosen, edge: Cursor | None) -> Chosen:
    if edge is None:
        return chosen
    values = {"edge_at_ms": edge.created_at_ms, "edge_id": edge.delivery_id}
    return Chosen(chosen.source, [*chosen.wanted, EDGES[edge.newer]], chosen.values | values)


def _edge(
    dialect: Dialect, query: Query, cursor: Cursor | None, look_at: int
) -> Steps[Cursor | None]:
    """The last of the deliveries that are looked at; None: that is all there are."""
    wanted = [STATES["failed"]] if is_of_failed(query) else []
    values: dict[str, Any] = {"limit": 2, "passed": look_at - 1}
    newer = behind(cursor, wanted, values)
    statement = fill(dialect.sql["places"], {"where": _where(wanted), "order": ORDERS[newer]})
    found = yield Ask(statement, values)
    return Cursor(found[0][0], found[0][1], newer) if len(found) > 1 else None


def _has_many(dialect: Dialect, address: str) -> Steps[bool]:
    given = {"address": address, "few": dialect.few_to_one_address}
    return bool((yield Ask(dialect.sql["one_more_to_address"], given)))


def _where(wanted: Sequence[str]) -> str:
    return f"where {' and '.join(wanted)}" if wanted else ""

"""Pages of deliveries, newest first, and how much is read for one.

A listing goes along the creation time, or through an index that has few of them. `page_within` ends
where it has looked at enough: a filter that matches little would read everything.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from msgspec import Struct

from homing.ports import Cursor, Page, Query
from homing.stores.queries import page_of, page_to_edge, widths
from homing.stores.sql import filters
from homing.stores.sql.columns import delivery_of
from homing.stores.sql.filters import (
    DELIVERIES,
    EDGES,
    OF_RECIPIENT,
    ORDERS,
    PLACES_IN_ORDER,
    STATES,
    behind,
    is_narrow,
    is_of_failed,
    states_of,
)
from homing.stores.sql.sqlite.few import few_of_error, few_of_states
from homing.stores.sql.sqlite.moments import one_moment
from homing.stores.sql.sqlite.rows import PARTS
from homing.stores.sql.statements import load

_SQL = load(__package__, "read.sql", PARTS)
# The planner does not know that few deliveries are in flight, and few owe a notice since lately.
_IN_FLIGHT = f"{DELIVERIES} indexed by homing_deliveries_leases"
_NOTICES_DUE_SINCE = f"{DELIVERIES} indexed by homing_deliveries_notices_due_since"
_FAILED_SINCE = f"{DELIVERIES} indexed by homing_deliveries_failed_since"
_RECORDS = "cross join homing_records as r on r.seq = d.seq"
_FOR_RECIPIENT = (
    "exists (select 1 from homing_recipients as a where a.address = :recipient and a.seq = d.seq)"
)
_AMONG = "d.seq in (select value from json_each(:seqs))"
# So many are read and sorted in a few milliseconds.
FEW_TO_ONE_ADDRESS = 5_000


class Chosen(Struct):
    """Where deliveries are looked for, what must hold, and the values to bind."""

    where: str
    wanted: list[str]
    values: dict[str, Any]
    # Few are looked at, whatever the filter.
    is_few: bool = False


def chosen_by(query: Query) -> Chosen:
    where, wanted, values = filters.conditions(query)
    if where == DELIVERIES and query.holder is not None and STATES["in_flight"] in wanted:
        where = _IN_FLIGHT
    if where == DELIVERIES and query.updated_from_ms is not None:
        if query.notices_due:
            where = _NOTICES_DUE_SINCE
        elif is_of_failed(query):
            where = _FAILED_SINCE
    return Chosen(where, wanted, values, is_narrow(query))


def page(connection: sqlite3.Connection, query: Query, cursor: Cursor | None, limit: int) -> Page:
    with one_moment(connection):
        return _page(connection, _choose(connection, query), cursor, limit)


def page_within(
    connection: sqlite3.Connection,
    query: Query,
    cursor: Cursor | None,
    limit: int,
    look_at: int,
) -> Page:
    with one_moment(connection):
        chosen = _choose(connection, query)
        if query.recipient is not None and _has_many(connection, query.recipient):
            # Too many to be sorted; so many that they are met soon among the others.
            chosen = Chosen(DELIVERIES, [*chosen.wanted, _FOR_RECIPIENT], chosen.values)
        if chosen.is_few:
            return _page(connection, chosen, cursor, limit)
        for first in widths(look_at):
            edge = _edge(connection, query, cursor, first)
            found = _page(connection, _up_to(chosen, edge), cursor, limit)
            if edge is None or len(found.items) == limit or first == look_at:
                return page_to_edge(found, cursor, edge)
    raise AssertionError("the last width is that of `look_at`")


def _up_to(chosen: Chosen, edge: Cursor | None) -> Chosen:
    if edge is None:
        return chosen
    values = {"edge_at_ms": edge.created_at_ms, "edge_id": edge.delivery_id}
    wanted = [*chosen.wanted, EDGES[edge.newer]]
    return Chosen(chosen.where, wanted, chosen.values | values)


def _choose(connection: sqlite3.Connection, query: Query) -> Chosen:
    chosen = chosen_by(query)
    seqs = None if chosen.is_few else _few(connection, query)
    if seqs is None:
        return chosen
    chosen.values["seqs"] = str(seqs)
    return Chosen(DELIVERIES, [*chosen.wanted, _AMONG], chosen.values, is_few=True)


def _few(connection: sqlite3.Connection, query: Query) -> list[int] | None:
    states = states_of(query) or ({*STATES} if query.route is not None else set())
    if states == {"failed"} and query.error_class:
        return few_of_error(connection, query.error_class, query.route)
    if states <= {"failed"}:
        return None
    return few_of_states(connection, states, query.route)


def _page(
    connection: sqlite3.Connection, chosen: Chosen, cursor: Cursor | None, limit: int
) -> Page:
    where, wanted = chosen.where, [*chosen.wanted]
    values = chosen.values | {"limit": max(limit, 0) + 1}
    newer = behind(cursor, wanted, values)
    conditions = f"where {' and '.join(wanted)}" if wanted else ""
    if where == OF_RECIPIENT:
        # An address may have very many, in no order: only those of the page are read whole.
        conditions = f"where d.seq in (select d.seq {where} {conditions} {ORDERS[newer]})"
        where = DELIVERIES
    statement = " ".join((_SQL["page"], where, _RECORDS, conditions, ORDERS[newer]))
    rows = connection.execute(statement, values)
    return page_of([delivery_of(row[0], row[1:]) for row in rows], cursor, limit)


def _edge(
    connection: sqlite3.Connection, query: Query, cursor: Cursor | None, look_at: int
) -> Cursor | None:
    """The last of the deliveries that are looked at; None: that is all there are."""
    wanted = [STATES["failed"]] if is_of_failed(query) else []
    values: dict[str, Any] = {"limit": 2, "passed": look_at - 1}
    newer = behind(cursor, wanted, values)
    conditions = f"where {' and '.join(wanted)}" if wanted else ""
    statement = f"{PLACES_IN_ORDER} {conditions} {ORDERS[newer]} offset :passed"
    found = connection.execute(statement, values).fetchall()
    return Cursor(found[0][0], found[0][1], newer) if len(found) > 1 else None


def _has_many(connection: sqlite3.Connection, address: str) -> bool:
    given = {"address": address, "few": FEW_TO_ONE_ADDRESS}
    return connection.execute(_SQL["one_more_to_address"], given).fetchone() is not None

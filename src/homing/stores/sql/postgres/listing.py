"""Pages of deliveries, newest first, and how much is read for one (see also sqlite/listing.py)."""

from __future__ import annotations

import re

from homing.domain.delivery import CLAIMABLE_STATES
from homing.ports import Cursor, Page, Query
from homing.stores.queries import page_of, page_to_edge, widths
from homing.stores.sql import filters
from homing.stores.sql.columns import Row, delivery_of
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
from homing.stores.sql.postgres.arrays import Array
from homing.stores.sql.postgres.connection import Connection
from homing.stores.sql.postgres.rows import PARTS
from homing.stores.sql.postgres.statement import bind
from homing.stores.sql.statements import load

_SQL = load(__package__, "read.sql", PARTS)
_RECORDS = "cross join lateral (select * from homing_records as r where r.id = d.id) as r"
_WHERE = {
    OF_RECIPIENT: "from homing_recipients as a cross join homing_deliveries as d",
}
_OF_RECIPIENT = "d.id = a.id and a.address = :recipient"
# A limit keeps it a question about each delivery: as a join, all to the address would be read.
_FOR_RECIPIENT = (
    "(select true from homing_recipients as a where a.address = :recipient and a.id = d.id limit 1)"
)
_PARAMETER = re.compile(r"(?<!:):(\w+)")
# So many are read and sorted in a few milliseconds.
FEW = 2_000

Chosen = tuple[str, list[str], dict[str, object]]


def conditions(query: Query) -> Chosen:
    where, wanted, values = filters.conditions(query)
    if where == OF_RECIPIENT:
        wanted.append(_OF_RECIPIENT)
    return _WHERE.get(where, where), wanted, values


async def page(connection: Connection, query: Query, cursor: Cursor | None, limit: int) -> Page:
    chosen, _ = await _choose(connection, query)
    return await _page(connection, chosen, cursor, limit)


async def page_within(
    connection: Connection, query: Query, cursor: Cursor | None, limit: int, look_at: int
) -> Page:
    """Several statements: what changes between them is seen or not."""
    chosen, is_few = await _choose(connection, query)
    if query.recipient is not None and await _has_many(connection, query.recipient):
        # Too many to be sorted; so many that they are met soon among the others.
        _, wanted, values = filters.conditions(query)
        chosen, is_few = (DELIVERIES, [*wanted, _FOR_RECIPIENT], values), False
    if is_few:
        return await _page(connection, chosen, cursor, limit)
    for first in widths(look_at):
        edge = await _edge(connection, query, cursor, first)
        found = await _page(connection, _up_to(chosen, edge), cursor, limit)
        if edge is None or len(found.items) == limit or first == look_at:
            return page_to_edge(found, cursor, edge)
    raise AssertionError("the last width is that of `look_at`")


def _up_to(chosen: Chosen, edge: Cursor | None) -> Chosen:
    if edge is None:
        return chosen
    where, wanted, values = chosen
    place = {"edge_at_ms": edge.created_at_ms, "edge_id": edge.delivery_id}
    return where, [*wanted, EDGES[edge.newer]], {**values, **place}


async def _choose(connection: Connection, query: Query) -> tuple[Chosen, bool]:
    """Where to look, and whether few are looked at whatever the filter."""
    where, wanted, values = conditions(query)
    # What is open has a table of its own.
    if is_narrow(query) or (query.facets and states_of(query) <= CLAIMABLE_STATES):
        return (where, wanted, values), True
    ids = await _few(connection, query)
    if ids is None:
        return (where, wanted, values), False
    wanted.append("d.id = any(:ids::text[])")
    values["ids"] = Array("text", ids)
    return (where, wanted, values), True


async def _few(connection: Connection, query: Query) -> list[str] | None:
    """The ids of all deliveries of ended states, or dead letters with an error, that few have;
    None: they are many, or the index does not have them all."""
    states = states_of(query)
    is_of_error = states == {"failed"} and bool(query.error_class)
    if not states or states & CLAIMABLE_STATES:
        return None
    if states == {"failed"} and not is_of_error:
        return None
    given: dict[str, object] = {
        "route": query.route,
        "error_class": query.error_class if is_of_error else None,
    }
    numbers: dict[str, int] = dict(await connection.run(bind(_SQL["numbers_ended"], given)))
    ids: list[str] = []
    for state in sorted(states):
        number = numbers.get(state, 0)
        if number > FEW:
            return None
        name = "ids_failed" if is_of_error else "ids_ended"
        found = await connection.run(bind(_SQL[name], given | {"state": state}))
        if len(found) != number:
            return None
        ids += [delivery_id for (delivery_id,) in found]
    return ids


async def _page(connection: Connection, chosen: Chosen, cursor: Cursor | None, limit: int) -> Page:
    where, wanted, values = chosen[0], [*chosen[1]], {**chosen[2], "limit": max(limit, 0) + 1}
    newer = behind(cursor, wanted, values)
    rows = await ask(connection, [_SQL["page"], where, _RECORDS], wanted, ORDERS[newer], values)
    return page_of([delivery_of(row[0], row[1:]) for row in rows], cursor, limit)


async def _edge(
    connection: Connection, query: Query, cursor: Cursor | None, look_at: int
) -> Cursor | None:
    """The last of the deliveries that are looked at; None: that is all there are."""
    wanted = [STATES["failed"]] if is_of_failed(query) else []
    values: dict[str, object] = {"limit": 2, "passed": look_at - 1}
    newer = behind(cursor, wanted, values)
    order = f"{ORDERS[newer]} offset :passed"
    found = await ask(connection, [PLACES_IN_ORDER], wanted, order, values)
    return Cursor(found[0][0], found[0][1], newer) if len(found) > 1 else None


async def _has_many(connection: Connection, address: str) -> bool:
    given = {"address": address, "few": FEW}
    return bool(await connection.run(bind(_SQL["one_more_to_address"], given)))


async def ask(
    connection: Connection,
    selected: list[str],
    wanted: list[str],
    order: str,
    values: dict[str, object],
) -> list[Row]:
    where = f"where {' and '.join(wanted)}" if wanted else ""
    statement = _PARAMETER.sub(r"@\1", " ".join([*selected, where, order]))
    return await connection.run(bind(statement, values))

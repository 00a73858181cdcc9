"""Reads of the database, each on a read-only connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import dropwhile, islice, takewhile
from typing import Any

from homing.domain.delivery import Attempt, Content, Delivery, Fact, Key
from homing.ports import Cursor, FactCursor, FactOrder, GroupBy, Page, Query
from homing.stores.codec import decode_attempt, decode_fact_value
from homing.stores.queries import page_of
from homing.stores.sql import filters
from homing.stores.sql.columns import delivery_of
from homing.stores.sql.filters import (
    ABOVE,
    BELOW,
    DELIVERIES,
    GROUPS,
    ORDERS,
    STATES,
    is_counted,
)
from homing.stores.sql.ledger import implied_attempt
from homing.stores.sql.sqlite.claiming import PRIORITIES
from homing.stores.sql.sqlite.rows import PARTS
from homing.stores.sql.statements import load

_SQL = load(__package__, "read.sql", PARTS)
# The planner does not know that few deliveries are in flight, and few owe a notice since lately.
_IN_FLIGHT = f"{DELIVERIES} indexed by homing_deliveries_leases"
_NOTICES_DUE_SINCE = f"{DELIVERIES} indexed by homing_deliveries_notices_due_since"
_RECORDS = "cross join homing_records as r on r.seq = d.seq"
# By these the numbers of deliveries are kept.
# Before every fact in this order.
FIRST_FACT = {"oldest": FactCursor("", -(2**63)), "newest": FactCursor("", 2**63 - 1)}


def get(connection: sqlite3.Connection, delivery_id: str) -> Delivery | None:
    row = connection.execute(_SQL["get"], (delivery_id,)).fetchone()
    return None if row is None else _delivery(row)


def get_many(connection: sqlite3.Connection, delivery_ids: Sequence[str]) -> list[Delivery | None]:
    return [get(connection, delivery_id) for delivery_id in delivery_ids]


def _delivery(row: tuple[Any, ...]) -> Delivery:
    return delivery_of(row[0], row[1:])


@contextmanager
def _one_moment(connection: sqlite3.Connection) -> Iterator[None]:
    """Several reads of the same state of the database."""
    connection.execute("begin")
    try:
        yield
    finally:
        connection.execute("commit")


def content(connection: sqlite3.Connection, delivery_id: str) -> Content | None:
    with _one_moment(connection):
        row = connection.execute(_SQL["payload"], (delivery_id,)).fetchone()
        if row is None:
            return None
        seq, payload = row
        return Content(payload or b"", dict(connection.execute(_SQL["results"], (seq,))))


def find(connection: sqlite3.Connection, source: str, key: str) -> Key | None:
    row = connection.execute(_SQL["find"], (source, key)).fetchone()
    return None if row is None else Key(*row)


def _conditions(query: Query) -> tuple[str, list[str], dict[str, Any]]:
    where, wanted, values = filters.conditions(query)
    if where == DELIVERIES and query.holder is not None and STATES["in_flight"] in wanted:
        where = _IN_FLIGHT
    if where == DELIVERIES and query.notices_due and query.updated_from_ms is not None:
        where = _NOTICES_DUE_SINCE
    return where, wanted, values


def page(connection: sqlite3.Connection, query: Query, cursor: Cursor | None, limit: int) -> Page:
    where, wanted, values = _conditions(query)
    newer = cursor is not None and cursor.newer
    if cursor is not None:
        wanted.append(ABOVE if newer else BELOW)
        values |= {"seen_at_ms": cursor.created_at_ms, "seen_id": cursor.delivery_id}
    values["limit"] = max(limit, 0) + 1
    chosen = f"where {' and '.join(wanted)}" if wanted else ""
    if query.recipient is not None:
        # An address may have very many, in no order: only those of the page are read whole.
        chosen = f"where d.seq in (select d.seq {where} {chosen} {ORDERS[newer]})"
        where = DELIVERIES
    statement = " ".join((_SQL["page"], where, _RECORDS, chosen, ORDERS[newer]))
    found = [_delivery(row) for row in connection.execute(statement, values)]
    return page_of(found, cursor, limit)


def count(
    connection: sqlite3.Connection, query: Query, by: tuple[GroupBy, ...]
) -> dict[tuple[str, ...], int]:
    where, wanted, values = _conditions(query)
    # By the columns and not by their words, so that an index gives the groups in order.
    columns = ", ".join(f"d.{name}" for name in by)
    number = "count(*)"
    if is_counted(query, by):
        where, number = _SQL["standing"], "coalesce(sum(d.number), 0)"
    statement = " ".join(
        (
            f"select {', '.join([*(GROUPS[name] for name in by), number])}",
            where,
            f"where {' and '.join(wanted)}" if wanted else "",
            f"group by {columns} having {number} > 0" if by else "",
        )
    )
    counts: dict[tuple[str, ...], int] = {}
    for *words, counted in connection.execute(statement, values):
        # What is not there and what is empty have the same word.
        counts[tuple(words)] = counts.get(tuple(words), 0) + counted
    return counts


def attempts(connection: sqlite3.Connection, delivery_id: str) -> list[Attempt]:
    with _one_moment(connection):
        rows = connection.execute(_SQL["attempts"], (delivery_id,)).fetchall()
        implied = connection.execute(_SQL["implied_attempt"], (delivery_id,)).fetchone()
    found = [decode_attempt(record) for (record,) in rows]
    if implied is not None:
        done_by, done_since_ms, *row = implied
        found.append(implied_attempt(_delivery(tuple(row)), done_by, done_since_ms))
    return sorted(found, key=lambda attempt: attempt.number)


def facts(
    connection: sqlite3.Connection,
    kind: str,
    prefix: str,
    limit: int,
    after: FactCursor | None = None,
    order: FactOrder = "key",
) -> list[Fact]:
    rows, matching = _facts_in_order(connection, kind, prefix, after, order)
    found = [
        Fact(kind, key, at_ms, decode_fact_value(value))
        for kind, key, at_ms, value in islice(matching, max(limit, 0))
    ]
    rows.close()
    return found


def _facts_in_order(
    connection: sqlite3.Connection,
    kind: str,
    prefix: str,
    after: FactCursor | None,
    order: FactOrder,
) -> tuple[sqlite3.Cursor, Iterator[tuple[Any, ...]]]:
    if order != "key":
        start = FIRST_FACT[order] if after is None else after
        rows = connection.execute(_SQL[f"{order}_facts"], (kind, start.at_ms, start.key))
        return rows, (row for row in rows if row[1].startswith(prefix))
    start_key = prefix if after is None else max(prefix, after.key)
    rows = connection.execute(_SQL["facts"], (kind, start_key))
    behind = rows if after is None else dropwhile(lambda row: row[1] <= after.key, rows)
    # The keys that start with the prefix are next to each other, and first.
    return rows, takewhile(lambda row: row[1].startswith(prefix), behind)


def next_due_ms(connection: sqlite3.Connection, lanes: Sequence[str]) -> int | None:
    found: list[tuple[int]] = []
    for lane in dict.fromkeys(lanes):
        for priority in PRIORITIES:
            found += connection.execute(_SQL["next_ready"], (lane, priority))
        found += connection.execute(_SQL["next_lease_end"], (lane,))
    return min((due_at_ms for (due_at_ms,) in found), default=None)

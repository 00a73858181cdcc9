"""Reads of the database, each on a read-only connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import dropwhile, islice, takewhile
from typing import Any

from homing.domain.delivery import Attempt, Content, Delivery, Fact, Key
from homing.ports import FactCursor, FactOrder, GroupBy, Query
from homing.stores.codec import decode_attempt, decode_fact_value
from homing.stores.sql.columns import delivery_of
from homing.stores.sql.filters import GROUPS, is_counted, newest_failures_first
from homing.stores.sql.ledger import implied_attempt
from homing.stores.sql.sqlite.claiming import PRIORITIES
from homing.stores.sql.sqlite.listing import chosen_by
from homing.stores.sql.sqlite.moments import one_moment
from homing.stores.sql.sqlite.rows import PARTS
from homing.stores.sql.statements import load

_SQL = load(__package__, "read.sql", PARTS)
# Before every fact in this order.
FIRST_FACT = {"oldest": FactCursor("", -(2**63)), "newest": FactCursor("", 2**63 - 1)}


def get(connection: sqlite3.Connection, delivery_id: str) -> Delivery | None:
    row = connection.execute(_SQL["get"], (delivery_id,)).fetchone()
    return None if row is None else _delivery(row)


def get_many(connection: sqlite3.Connection, delivery_ids: Sequence[str]) -> list[Delivery | None]:
    return [get(connection, delivery_id) for delivery_id in delivery_ids]


def _delivery(row: tuple[Any, ...]) -> Delivery:
    return delivery_of(row[0], row[1:])


def content(connection: sqlite3.Connection, delivery_id: str) -> Content | None:
    with one_moment(connection):
        row = connection.execute(_SQL["payload"], (delivery_id,)).fetchone()
        if row is None:
            return None
        seq, payload = row
        return Content(payload or b"", dict(connection.execute(_SQL["results"], (seq,))))


def find(connection: sqlite3.Connection, source: str, key: str) -> Key | None:
    row = connection.execute(_SQL["find"], (source, key)).fetchone()
    return None if row is None else Key(*row)


def count(
    connection: sqlite3.Connection,
    query: Query,
    by: tuple[GroupBy, ...],
    most: int | None = None,
) -> dict[tuple[str, ...], int]:
    """`most`: it ends when so many were found."""
    chosen = chosen_by(query)
    where, number = chosen.where, "count(*)"
    conditions = f"where {' and '.join(chosen.wanted)}" if chosen.wanted else ""
    # By the columns and not by their words, so that an index gives the groups in order.
    columns = ", ".join(f"d.{name}" for name in by)
    if is_counted(query, by):
        where, number = _SQL["standing"], "coalesce(sum(d.number), 0)"
    elif most is not None:
        order = newest_failures_first(query)
        bounded = f"select {columns or '1'} {where} {conditions} {order} limit {int(most)}"
        where, conditions = f"from ({bounded}) as d", ""
    statement = " ".join(
        (
            f"select {', '.join([*(GROUPS[name] for name in by), number])}",
            where,
            conditions,
            f"group by {columns} having {number} > 0" if by else "",
        )
    )
    counts: dict[tuple[str, ...], int] = {}
    for *words, counted in connection.execute(statement, chosen.values):
        # What is not there and what is empty have the same word.
        counts[tuple(words)] = counts.get(tuple(words), 0) + counted
    return counts


def attempts(connection: sqlite3.Connection, delivery_id: str) -> list[Attempt]:
    with one_moment(connection):
        rows = connection.execute(_SQL["attempts"], (delivery_id,)).fetchall()
        implied = connection.execute(_SQL["implied_attempt"], (delivery_id,)).fetchone()
    found = [decode_attempt(record) for (record,) in rows]
    if implied is not None:
        done_by, done_since_ms, *row = implied
        found.append(implied_attempt(_delivery(tuple(row)), done_by, done_since_ms))
    return sorted(found, key=lambda attempt: attempt.number)


def attempts_of_many(
    connection: sqlite3.Connection, delivery_ids: Sequence[str]
) -> list[list[Attempt]]:
    return [attempts(connection, delivery_id) for delivery_id in delivery_ids]


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


def next_due_ms(connection: sqlite3.Connection, queues: Sequence[str]) -> int | None:
    found: list[tuple[int]] = []
    for queue in dict.fromkeys(queues):
        for priority in PRIORITIES:
            found += connection.execute(_SQL["next_ready"], (queue, priority))
        found += connection.execute(_SQL["next_lease_end"], (queue,))
    return min((due_at_ms for (due_at_ms,) in found), default=None)

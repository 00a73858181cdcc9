"""Reads, each one statement: it sees one state of the database."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from homing.domain.delivery import Attempt, Content, Delivery, Fact, Key
from homing.ports import FactCursor, FactOrder, GroupBy, Query
from homing.stores.codec import decode_attempt, decode_fact_value
from homing.stores.sql.columns import FRESH, Row, delivery_of
from homing.stores.sql.filters import GROUPS, is_counted, newest_failures_first
from homing.stores.sql.ledger import implied_attempt
from homing.stores.sql.postgres.arrays import Array
from homing.stores.sql.postgres.connection import Connection
from homing.stores.sql.postgres.listing import ask, conditions
from homing.stores.sql.postgres.purging import ADD_COUNTS_UP
from homing.stores.sql.postgres.rows import KINDS, PARTS
from homing.stores.sql.postgres.statement import bind
from homing.stores.sql.statements import load

_SQL = load(
    __package__,
    "read.sql",
    PARTS | {"no_fresh": ", ".join(f"null::{KINDS[name]}" for name in FRESH)},
)
_FIRST_SURROGATE, _FIRST_AFTER_SURROGATES = 0xD800, 0xE000
# Before every fact in this order.
_FIRST_FACT = {"oldest": FactCursor("", -(2**63)), "newest": FactCursor("", 2**63 - 1)}


async def get_many(connection: Connection, ids: Sequence[str]) -> list[Delivery | None]:
    rows = await connection.run(bind(_SQL["get"], {"ids": Array("text", ids)}))
    found = {delivery.id: delivery for delivery in map(_delivery, rows)}
    return [found.get(delivery_id) for delivery_id in ids]


def _delivery(row: Row) -> Delivery:
    return delivery_of(row[0], row[1:])


async def content(connection: Connection, delivery_id: str) -> Content | None:
    rows = await connection.run(bind(_SQL["content"], {"id": delivery_id}))
    if not rows:
        return None
    results = {name: data for _, name, data in rows if name is not None}
    return Content(rows[0][0] or b"", results)


async def find(connection: Connection, source: str, key: str) -> Key | None:
    rows = await connection.run(bind(_SQL["find"], {"source": source, "key": key}))
    return Key(*rows[0]) if rows else None


async def count(
    connection: Connection, query: Query, by: tuple[GroupBy, ...], most: int | None = None
) -> dict[tuple[str, ...], int]:
    """`most`: it ends when so many were found."""
    where, wanted, values = conditions(query)
    groups = [GROUPS[name] for name in by]
    number = "count(*)"
    if is_counted(query, by):
        await connection.run(ADD_COUNTS_UP, durable=False)
        where, number = _SQL["standing"], "coalesce(sum(d.number), 0)::bigint"
    elif most is not None:
        columns = ", ".join(f"d.{name}" for name in by)
        chosen = f"where {' and '.join(wanted)}" if wanted else ""
        order = newest_failures_first(query)
        bounded = f"select {columns} {where} {chosen} {order} limit {int(most)}"
        where, wanted = f"from ({bounded}) as d", []
    selected = [f"select {', '.join([*groups, number])}", where]
    grouped = f"group by {', '.join(groups)} having {number} > 0" if groups else ""
    rows = await ask(connection, selected, wanted, grouped, values)
    return {row[:-1]: row[-1] for row in rows}


async def attempts_of_many(connection: Connection, ids: Sequence[str]) -> list[list[Attempt]]:
    found: dict[str, list[Attempt]] = {delivery_id: [] for delivery_id in ids}
    rows = await connection.run(bind(_SQL["attempts"], {"ids": Array("text", ids)}))
    for record, done_by, done_since_ms, delivery, *fresh in rows:
        if record is not None:
            attempt = decode_attempt(record)
        else:
            attempt = implied_attempt(delivery_of(delivery, fresh), done_by, done_since_ms)
        found[attempt.delivery_id].append(attempt)
    return [sorted(found[each], key=lambda attempt: attempt.number) for each in ids]


async def facts(
    connection: Connection,
    kind: str,
    prefix: str,
    limit: int,
    after: FactCursor | None,
    order: FactOrder,
) -> list[Fact]:
    values: dict[str, object] = {"kind": kind, "prefix": prefix, "limit": max(limit, 0)}
    if order == "key":
        name = "facts"
        values |= {"until": _behind(prefix), "after": None if after is None else after.key}
    else:
        name = f"{order}_facts"
        start = _FIRST_FACT[order] if after is None else after
        values |= {"at_ms": start.at_ms, "after": start.key}
    rows = await connection.run(bind(_SQL[name], values))
    return [Fact(kind, key, at_ms, decode_fact_value(value)) for kind, key, at_ms, value in rows]


def _behind(prefix: str) -> str | None:
    """The first text behind all that start with the prefix; None if there is none."""
    for place in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[place]) + 1
        if code <= sys.maxunicode:
            # No text has half of a surrogate pair.
            code = _FIRST_AFTER_SURROGATES if code == _FIRST_SURROGATE else code
            return prefix[:place] + chr(code)
    return None


async def next_due_ms(connection: Connection, queues: Sequence[str]) -> int | None:
    [(due_at_ms,)] = await connection.run(
        bind(_SQL["next_due"], {"queues": Array("text", list(dict.fromkeys(queues)))})
    )
    found: int | None = due_at_ms
    return found

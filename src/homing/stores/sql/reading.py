"""Questions about single deliveries, keys and facts; each is one statement."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache

from homing.domain.delivery import Attempt, Content, Delivery, Fact, Key
from homing.ports import FactCursor, FactOrder
from homing.stores.codec import decode_attempt, decode_fact_value
from homing.stores.sql.asking import Ask, Steps, listed
from homing.stores.sql.columns import Row, delivery_of
from homing.stores.sql.dialect import Dialect
from homing.stores.sql.ledger import implied_attempt
from homing.stores.sql.statements import fill

_FIRST_SURROGATE, _FIRST_AFTER_SURROGATES = 0xD800, 0xE000
# Behind every key: none has so many of the last character.
_BEHIND_ALL = chr(sys.maxunicode) * 64
# Before every fact in this order, and the words of the order.
_FIRST_FACT = {"oldest": FactCursor("", -(2**63)), "newest": FactCursor("", 2**63 - 1)}
_BY_TIME = {
    "oldest": {"beyond": ">", "direction": "asc"},
    "newest": {"beyond": "<", "direction": "desc"},
}


def get(dialect: Dialect, delivery_id: str) -> Steps[Delivery | None]:
    rows = yield Ask(dialect.sql["get"], {"id": delivery_id}, alone=True)
    return delivery_in(rows[0]) if rows else None


def get_many(dialect: Dialect, ids: Sequence[str]) -> Steps[list[Delivery | None]]:
    rows = yield Ask(dialect.sql["get_many"], {"ids": listed(ids)}, alone=True)
    found = {delivery.id: delivery for delivery in map(delivery_in, rows)}
    return [found.get(delivery_id) for delivery_id in ids]


def delivery_in(row: Row) -> Delivery:
    """The delivery in a row of its record and its fresh columns."""
    return delivery_of(row[0], row[1:])


def content(dialect: Dialect, delivery_id: str) -> Steps[Content | None]:
    """The row without a name is that of the payload."""
    rows = yield Ask(dialect.sql["content"], {"id": delivery_id}, alone=True)
    if not rows:
        return None
    results: dict[str | None, bytes] = dict(rows)
    payload = results.pop(None) or b""
    return Content(payload, {name: data for name, data in results.items() if name is not None})


def find(dialect: Dialect, source: str, key: str) -> Steps[Key | None]:
    rows = yield Ask(dialect.sql["find"], {"source": source, "key": key}, alone=True)
    return Key(*rows[0]) if rows else None


def attempts_of_many(dialect: Dialect, ids: Sequence[str]) -> Steps[list[list[Attempt]]]:
    """The row of an attempt that a delivered record implies has no record of its own."""
    found: dict[str, list[Attempt]] = {delivery_id: [] for delivery_id in ids}
    rows = yield Ask(dialect.sql["attempts"], {"ids": listed(ids)}, alone=True)
    for record, done_by, done_since_ms, delivery, *fresh in rows:
        if record is not None:
            attempt = decode_attempt(record)
        else:
            attempt = implied_attempt(delivery_of(delivery, fresh), done_by, done_since_ms)
        found[attempt.delivery_id].append(attempt)
    return [sorted(found[each], key=lambda attempt: attempt.number) for each in ids]


def facts(
    dialect: Dialect,
    kind: str,
    prefix: str,
    limit: int,
    after: FactCursor | None,
    order: FactOrder,
) -> Steps[list[Fact]]:
    """Keys that start with the prefix are next to each other: from `start`, and before `until`."""
    values: dict[str, object] = {"kind": kind, "until": _behind(prefix), "limit": max(limit, 0)}
    if order == "key":
        statement = dialect.sql["facts"]
        after_key = None if after is None else after.key
        values |= {"start": max(prefix, after_key or ""), "after": after_key}
    else:
        statement = _in_order(dialect.sql["facts_by_time"], order)
        seen = _FIRST_FACT[order] if after is None else after
        values |= {"start": prefix, "at_ms": seen.at_ms, "after": seen.key}
    rows = yield Ask(statement, values, alone=True)
    return [Fact(kind, key, at_ms, decode_fact_value(value)) for key, at_ms, value in rows]


@cache
def _in_order(statement: str, order: FactOrder) -> str:
    return fill(statement, _BY_TIME[order])


def _behind(prefix: str) -> str:
    """A text behind all that start with the prefix, and before all others behind it."""
    for place in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[place]) + 1
        if code <= sys.maxunicode:
            # No text has half of a surrogate pair.
            code = _FIRST_AFTER_SURROGATES if code == _FIRST_SURROGATE else code
            return prefix[:place] + chr(code)
    return prefix + _BEHIND_ALL


def known_facts(dialect: Dialect, kind: str, keys: Sequence[str]) -> Steps[list[str]]:
    """Those of the keys under which a fact of this kind is stored."""
    given = {"kind": kind, "keys": listed(keys)}
    rows = yield Ask(dialect.sql["known_facts"], given, alone=True)
    return [key for (key,) in rows]


def next_due_ms(dialect: Dialect, queues: Sequence[str]) -> Steps[int | None]:
    given = {"queues": listed(list(dict.fromkeys(queues)))}
    [(due_at_ms,)] = yield Ask(dialect.sql["next_due"], given, alone=True)
    found: int | None = due_at_ms
    return found

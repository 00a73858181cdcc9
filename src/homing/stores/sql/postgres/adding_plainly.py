"""Deliveries that differ in little, column by column: what a large add mostly consists of.

A row of a delivery has 35 values, most of which all rows of such an add share. Here no row is made:
the columns that differ are taken from the deliveries, and the others from the first of them.

No `Write` is made either. A test proves of all that `are_plain` accepts that `write_of_new` gives
exactly what the statement writes (tests/unit/stores/test_plain_adds.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from homing.domain.delivery import Delivery, New
from homing.stores.codec import encode_text
from homing.stores.sql.columns import COLUMNS
from homing.stores.sql.postgres.arrays import Array
from homing.stores.sql.postgres.rows import CARRIES_PAYLOAD, KINDS, NAMES, delivery_row
from homing.stores.sql.postgres.statement import Statement, bind
from homing.stores.sql.statements import load

_OWN = ("id", "key", "payload_bytes")


def _comparer() -> Callable[[Sequence[Delivery], Delivery, int], bool]:
    """Whether that many deliveries agree in the columns of one; compiled as in `row_maker`."""
    taken = " ".join(c.taken or f"d.{c.name}" for c in COLUMNS if c.name not in _OWN)
    fields = ["recipients", *dict.fromkeys(re.findall(r"\bd\.(\w+)", taken))]
    source = " and ".join(f"[d.{name} for d in all_].count(one.{name}) == n" for name in fields)
    made: Callable[[Sequence[Delivery], Delivery, int], bool]
    made = eval(f"lambda all_, one, n: {source}")  # noqa: S307 - of the constants above alone
    return made


_agree = _comparer()
_SQL = load(
    __package__,
    "add.sql",
    {
        "columns": ", ".join(NAMES),
        "plain_values": ", ".join(
            f"o.{name}" if name in _OWN else f"@{name}::{KINDS[name]}" for name in NAMES
        ),
    },
)


def are_plain(new: Sequence[New]) -> bool:
    """Whether they are pending, have a payload and one key each, and differ in little."""
    number = len(new)
    # Each list is made and counted in C; a test of each item in turn takes longer.
    if not number or [len(one.keys) for one in new].count(1) < number:
        return False
    if [(one.children, one.facts, one.results) for one in new].count(((), (), {})) < number:
        return False
    first, source = new[0].delivery, new[0].keys[0].source
    return (
        first.state == "pending"
        and first.ended_at_ms is None
        and not first.recipients
        and b"" not in [one.payload for one in new]
        and [one.keys[0].source for one in new].count(source) == number
        and [one.keys[0].key for one in new] == [one.delivery.key for one in new]
        and [one.keys[0].delivery_id for one in new] == [one.delivery.id for one in new]
        and [one.keys[0].expires_at_ms for one in new].count(None) == number
        and _agree([one.delivery for one in new], first, number)
    )


def plain_statement(new: Sequence[New]) -> Statement:
    """Writes them without a look at what is taken, and notifies."""
    deliveries = [one.delivery for one in new]
    shared = (*delivery_row(deliveries[0]), 0, CARRIES_PAYLOAD, None, 0, None, None)
    values: dict[str, Any] = dict(zip(NAMES, shared, strict=True))
    values |= {
        "ids": Array("text", [delivery.id for delivery in deliveries]),
        "keys": Array("text", [delivery.key for delivery in deliveries]),
        "records": Array("text", [encode_text(delivery) for delivery in deliveries]),
        "payloads": Array("bytea", [one.payload for one in new]),
        "payload_sizes": Array("bigint", [len(one.payload) for one in new]),
        "key_source": new[0].keys[0].source,
        "fingerprints": Array("text", [one.keys[0].fingerprint for one in new]),
    }
    return bind(_SQL["plain"], values)

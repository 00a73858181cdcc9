"""A lone add, as most are: one delivery with one key, in a statement without arrays.

It writes nothing if the key is taken, and does not say by whom: then the general way answers
(adding.py). Arrays of one element, and the looks that several rows need, are a quarter of the work
for such an add, of the caller and of the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from homing.stores.sql.postgres.adding import AddRequest
from homing.stores.sql.postgres.rows import KINDS, NAMES
from homing.stores.sql.postgres.statement import Statement, bind
from homing.stores.sql.statements import load


def lone_statement(requests: Sequence[AddRequest]) -> Statement | None:
    """None if it is not such an add. The statement returns a row if it has written."""
    if len(requests) != 1 or len(requests[0].entries) != 1:
        return None
    [request] = requests
    [entry] = request.entries
    write, delivery = entry.write, entry.write.delivery
    if (
        request.facts
        or request.may_be_stored
        or delivery.state != "pending"
        or delivery.recipients
        or len(write.keys) != 1
        or not write.payload
        or write.children
        or write.results
        or write.facts
    ):
        return None
    [key] = write.keys
    row = (*entry.row, 0, entry.carries, len(write.payload), 0, None, None)
    values: dict[str, Any] = {
        name: value for name, value in zip(NAMES, row, strict=True) if value is not None
    }
    # Most counters of a new delivery are 0: these are no parameters.
    zeros = [name for name, value in values.items() if value == 0]
    template = _template(tuple(values), frozenset(zeros))
    values |= {
        "record": entry.record,
        "payload": write.payload,
        "key_source": key.source,
        "key_name": key.key,
        "delivery_id": key.delivery_id,
        "fingerprint": key.fingerprint,
        "expires_at_ms": key.expires_at_ms,
    }
    return bind(template, values)


@cache
def _template(columns: tuple[str, ...], zeros: frozenset[str]) -> str:
    parts = {
        "columns": ", ".join(columns),
        "lone_values": ", ".join(
            "0" if name in zeros else f"@{name}::{KINDS[name]}" for name in columns
        ),
    }
    return load(__package__, "add.sql", parts)["lone"]

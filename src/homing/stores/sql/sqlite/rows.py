"""Values as SQLite is given them, and the lists of columns in its statements."""

from __future__ import annotations

from typing import Any

from homing.domain.delivery import Attempt, Fact
from homing.stores.codec import encode, encode_text
from homing.stores.sql.columns import COLUMNS, FRESH, NAMES, Row, row_maker

# Python binds None by a long search for an adapter. The statements turn this into a null instead:
# no text and no time is ever half a number.
ABSENT = 0.5

CARRIES_PAYLOAD = 1
CARRIES_RESULTS = 2
CARRIES_ATTEMPT = 4

# The save raises the version itself; when a waiting delivery is due depends on its children.
_ALWAYS_BY_STATEMENT = ("version", "due_at_ms")
SET_FRESH = tuple(column.name for column in COLUMNS if column.fresh and column.name != "version")
# Holder and lease stay as they are.
HANDS = ("state", "holder", "due_at_ms")
SET_IN_HAND = tuple(name for name in SET_FRESH if name not in HANDS)
# What a save brings beside the columns of the delivery.
_SAVED_TOO = ("due_at_zero_ms", "carries", "done_by", "done_since_ms", "seq")
PARTS = {
    "columns": ", ".join(NAMES),
    "row": ", ".join(f"nullif(?, {ABSENT})" if column.nullable else "?" for column in COLUMNS),
    "saved_columns": ", ".join(
        f"column{nth} as {name}" for nth, name in enumerate((*NAMES, *_SAVED_TOO), 1)
    ),
    "fresh": ", ".join(f"d.{name}" for name in FRESH),
    "set_fresh": ", ".join(f"{name} = ?" for name in SET_FRESH),
    "set_in_hand": ", ".join(f"{name} = ?" for name in SET_IN_HAND),
    "set_all": ", ".join(
        f"{column.name} = w.{column.name}"
        for column in COLUMNS
        if not column.fixed and column.name not in _ALWAYS_BY_STATEMENT
    ),
}


def bound(value: Any) -> Any:
    return ABSENT if value is None else value


delivery_row = row_maker(ABSENT)
"""A delivery's values in the order of its columns."""


def attempt_row(route: str, attempt: Attempt) -> Row:
    """In the order of the columns of `put_attempts`."""
    return (
        attempt.delivery_id,
        attempt.number,
        route,
        bound(attempt.ended_at_ms),
        encode_text(attempt),
    )


def fact_row(fact: Fact) -> Row:
    """In the order of the columns of `put_facts`."""
    return (fact.kind, fact.key, fact.at_ms, encode(fact.value).decode())

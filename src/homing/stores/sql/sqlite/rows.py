"""Values as SQLite is given them, and the lists of columns in its statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from homing.domain.delivery import Attempt, Delivery, Fact
from homing.stores.codec import encode, encode_text
from homing.stores.sql.columns import COLUMNS as ALL_COLUMNS
from homing.stores.sql.columns import FRESH, Column, Row, row_maker

# Python binds None by a long search for an adapter. The statements turn this into a null instead:
# no text and no time is ever half a number.
ABSENT = 0.5

CARRIES_PAYLOAD = 1
CARRIES_RESULTS = 2
CARRIES_ATTEMPT = 4

# In these a new delivery differs from others. They come first in a row; the usual values of the
# rest are written into the statement that adds it, because to bind them takes longer.
_OF_NEW = (
    "id",
    "created_at_ms",
    "updated_at_ms",
    "due_at_ms",
    "route",
    "queue",
    "priority",
    "stage",
    "source",
    "key",
    "topic",
)
COLUMNS = tuple(sorted(ALL_COLUMNS, key=lambda column: column.name not in _OF_NEW))
NAMES = tuple(column.name for column in COLUMNS)
DUE = NAMES.index("due_at_ms")
VARYING = len(_OF_NEW)

delivery_row = row_maker(ABSENT, COLUMNS)
"""A delivery's values in the order of `NAMES`."""

varying_row = row_maker(ABSENT, COLUMNS[:VARYING])
"""The values in which a new delivery differs from others."""

_NEW = Delivery(id="", route="", queue="", stage="", created_at_ms=0, updated_at_ms=0, due_at_ms=0)
# The fields from which the other columns are made.
_other_fields: Callable[[Delivery], Row] = attrgetter(
    *(
        {
            "error_class": "failure",
            "has_notices_due": "notices_due",
            "accepted_at_ms": "receipt",
        }.get(column.name, column.name)
        for column in COLUMNS[VARYING:]
    )
)
_USUAL = _other_fields(_NEW)


def is_usual(delivery: Delivery) -> bool:
    """It is as new deliveries are, in all but the first columns."""
    return _other_fields(delivery) == _USUAL


# The save raises the version itself; when a waiting delivery is due depends on its children.
_ALWAYS_BY_STATEMENT = ("version", "due_at_ms")
SET_FRESH = tuple(column.name for column in COLUMNS if column.fresh and column.name != "version")
# Holder and lease stay as they are.
HANDS = ("state", "holder", "due_at_ms")
SET_IN_HAND = tuple(name for name in SET_FRESH if name not in HANDS)
# What a save brings beside the columns of the delivery.
_SAVED_TOO = ("due_at_zero_ms", "carries", "done_by", "done_since_ms", "seq")


def _places(columns: Sequence[Column]) -> str:
    return ", ".join(f"nullif(?, {ABSENT})" if column.nullable else "?" for column in columns)


def _literal(value: Any) -> str:
    if value == ABSENT:
        return "null"
    return f"'{value}'" if isinstance(value, str) else str(value)


PARTS = {
    "columns": ", ".join(NAMES),
    "row": _places(COLUMNS),
    "varying": ", ".join(NAMES[:VARYING]),
    "varying_row": _places(COLUMNS[:VARYING]),
    "new_varying": ", ".join(f"new.{name}" for name in NAMES[:VARYING]),
    "usual_values": ", ".join(_literal(value) for value in delivery_row(_NEW)[VARYING:]),
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

"""Values as SQLite is given them, and the lists of columns in its statements."""

from __future__ import annotations

from typing import Any

from homing.stores.sql.columns import COLUMNS, FRESH, NAMES, row_maker

# Python binds None by a long search for an adapter. The statements turn this into a null instead:
# no text and no time is ever half a number.
ABSENT = 0.5

delivery_row = row_maker(ABSENT)
"""A delivery's values in the order of `NAMES`."""

SET_FRESH = tuple(column.name for column in COLUMNS if column.fresh and column.name != "version")
# Holder and lease stay as they are.
LEASE = ("state", "holder", "due_at_ms")
SET_UNDER_LEASE = tuple(name for name in SET_FRESH if name not in LEASE)
# What a save brings beside the columns of the delivery.
_SAVED_TOO = ("counted", "carries", "done_by", "done_since_ms", "over", "next_version", "seq")

PARTS = {
    "columns": ", ".join(NAMES),
    "row": ", ".join(f"nullif(?, {ABSENT})" if column.nullable else "?" for column in COLUMNS),
    "saved_columns": ", ".join(
        f"column{nth} as {name}" for nth, name in enumerate((*NAMES, *_SAVED_TOO), 1)
    ),
    "fresh": ", ".join(f"d.{name}" for name in FRESH),
    "set_fresh": ", ".join(f"{name} = ?" for name in SET_FRESH),
    "set_under_lease": ", ".join(f"{name} = ?" for name in SET_UNDER_LEASE),
    "set_all": ", ".join(
        f"{column.name} = w.{column.name}"
        for column in COLUMNS
        if not column.fixed and column.name != "version"
    ),
}


def bound(value: Any) -> Any:
    return ABSENT if value is None else value

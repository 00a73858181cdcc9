"""The columns of a delivery, defined once for rows, statements, filters and reading.

A record contains everything about a delivery. Columns contain what a database searches by. Some are
*fresh*: a claim, a mark or a plain outcome may change them without writing the record again, so
where column and record differ, the column is right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr

from homing.domain.delivery import Delivery, Receipt
from homing.stores.codec import decode_delivery

Row: TypeAlias = tuple[Any, ...]


class Column(Struct, frozen=True):
    """`taken` is the expression that reads it from a delivery `d`; empty: the field of that name.

    A `fixed` one never changes after the add.
    """

    name: str
    kind: Literal["text", "integer"]
    nullable: bool = False
    taken: str = ""
    fresh: bool = False
    fixed: bool = False


COLUMNS = (
    Column("id", "text", fixed=True),
    Column("created_at_ms", "integer", fixed=True),
    Column("route", "text"),
    Column("queue", "text"),
    Column("priority", "integer"),
    Column("stage", "text"),
    Column("phase", "text"),
    Column("source", "text"),
    Column("state", "text", fresh=True),
    Column("version", "integer", fresh=True),
    Column("unsettled_claims", "integer", fresh=True),
    Column("updated_at_ms", "integer", fresh=True),
    Column("attempts_ended", "integer", fresh=True),
    Column("attempts_spent", "integer", fresh=True),
    Column("parent_id", "text", nullable=True, fixed=True),
    Column("clone_of", "text", nullable=True, fixed=True),
    Column("key", "text", nullable=True),
    Column("topic", "text", nullable=True),
    Column("failed_because", "text", nullable=True),
    Column("holder", "text", nullable=True, fresh=True),
    Column("due_at_ms", "integer", nullable=True, fresh=True),
    Column("claimed_at_ms", "integer", nullable=True, fresh=True),
    Column("ended_at_ms", "integer", nullable=True, fresh=True),
    Column("committed_at_ms", "integer", nullable=True, fresh=True),
    Column("error_class", "text", nullable=True, taken="d.failure and d.failure.error_class"),
    Column("has_notices_due", "integer", taken="1 if d.notices_due else 0"),
    Column("required", "integer", taken="1 if d.required else 0"),
    Column("committing", "integer", taken="1 if d.committing else 0", fresh=True),
    Column(
        "accepted_at_ms",
        "integer",
        nullable=True,
        taken="d.receipt and plain_receipt_at_ms(d.receipt)",
        fresh=True,
    ),
)
NAMES = tuple(column.name for column in COLUMNS)
PLACES = {name: place for place, name in enumerate(NAMES)}


def plain_receipt_at_ms(receipt: Receipt) -> int | None:
    """When it was accepted, if the receipt contains nothing else."""
    at_ms = receipt.accepted_at_ms
    return at_ms if receipt == Receipt(accepted_at_ms=at_ms) else None


def row_maker(
    absent: object = None, columns: Sequence[Column] = COLUMNS
) -> Callable[[Delivery], Row]:
    """A function that makes the row of a delivery, with `absent` instead of None.

    It is compiled from the table of columns: a loop over them takes three times as long, and every
    delivery that is added goes through it.
    """
    values = [
        (f"absent if (v := {taken}) is None else v" if column.nullable else taken)
        for column in columns
        for taken in (column.taken or f"d.{column.name}",)
    ]
    names = {"absent": absent, "plain_receipt_at_ms": plain_receipt_at_ms}
    made: Callable[[Delivery], Row] = eval(f"lambda d: ({', '.join(values)})", names)  # noqa: S307 - of the constants above alone
    return made


# The plain receipt's time is the last of them. The store counts open children itself: it takes
# that number from no delivery.
FRESH = (*(column.name for column in COLUMNS if column.fresh), "open_children")
FRESH_FIELDS = tuple(
    {"accepted_at_ms": "receipt"}.get(column.name, column.name)
    for column in COLUMNS
    if column.fresh
)
_COMMITTING = FRESH_FIELDS.index("committing")
_fresh_row = row_maker(columns=[column for column in COLUMNS if column.fresh])
# The fields from which the other columns are made.
_stored_with_record: Callable[[Delivery], Row] = attrgetter(
    *(c.name for c in COLUMNS if not (c.fresh or c.fixed or c.taken)),
    "failure",
    "notices_due",
    "required",
)


def _record_comparer() -> Callable[[Delivery, Delivery], bool]:
    """Whether two deliveries agree in all fields without a column; compiled as in `row_maker`."""
    fresh = {*FRESH_FIELDS, "open_children"}
    fields = [name for name in Delivery.__struct_fields__ if name not in fresh]
    source = " and ".join(f"before.{name} == after.{name}" for name in fields)
    made: Callable[[Delivery, Delivery], bool] = eval(f"lambda before, after: {source}")  # noqa: S307 - of the constants above alone
    return made


_same_record = _record_comparer()


def column_change(before: Delivery, after: Delivery) -> tuple[Row | None, bool]:
    """The new values of the fresh columns, or None if other columns change, too; and whether the
    record changes."""
    fresh = _fresh_row(after)
    # A receipt that says more than its time is kept in the record only, and must stay there.
    same_receipt = fresh[-1] is not None or after.receipt == before.receipt
    if same_receipt and _same_record(before, after):
        return fresh, False
    if _stored_with_record(before) == _stored_with_record(after):
        return fresh, True
    return None, True


def delivery_of(record: str | bytes, fresh: Sequence[Any]) -> Delivery:
    """The record with the newer values of the columns; `fresh` in the order of FRESH."""
    delivery = decode_delivery(record)
    overlay_columns(delivery, fresh)
    return delivery


def overlay_columns(delivery: Delivery, fresh: Sequence[Any]) -> None:
    """For a delivery just read, to which nothing else refers yet."""
    *columns, accepted_at_ms, open_children = fresh
    columns[_COMMITTING] = bool(columns[_COMMITTING])
    for name, value in zip(FRESH_FIELDS, columns, strict=False):
        force_setattr(delivery, name, value)
    if accepted_at_ms is not None:
        force_setattr(delivery, "receipt", Receipt(accepted_at_ms=accepted_at_ms))
    force_setattr(delivery, "open_children", open_children)

"""The table of columns: what follows from it, and when a record need not be written again."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Delivery, Receipt, Recipient
from homing.domain.failure import Failure
from homing.stores.codec import encode_text
from homing.stores.sql.columns import (
    COLUMNS,
    FRESH,
    NAMES,
    column_change,
    delivery_of,
    row_maker,
)
from homing.stores.sql.sqlite.connection import connect_to_write
from homing.testing import samples
from homing.testing.contract.filled import filled_delivery
from homing.testing.samples import LEASE_MS, NOW_MS

KEPT_BY_THE_STORE = {"seq", "open_children", "carries", "done_by", "done_since_ms", "is_stale"}


def test_the_schema_has_exactly_these_columns(tmp_path: Path) -> None:
    database = connect_to_write(tmp_path / "outbox.db", 1.0)
    found = {
        name: (kind.lower(), not required)
        for _, name, kind, required, *_ in database.execute("pragma table_info(homing_deliveries)")
        if name not in KEPT_BY_THE_STORE
    }
    database.close()

    assert found == {column.name: (column.kind, column.nullable) for column in COLUMNS}


def test_a_row_says_what_the_delivery_says() -> None:
    whole = filled_delivery("d1", failure=Failure("mailbox_full"))
    row = dict(zip(NAMES, row_maker(None)(whole), strict=True))

    same = {name for name in NAMES if getattr(whole, name, row) == row[name]}
    assert set(NAMES) - same == {"error_class", "has_notices_due", "accepted_at_ms"}
    assert (row["error_class"], row["has_notices_due"]) == ("mailbox_full", 1)
    # Its receipt says more than a time: it is read from the record alone.
    assert row["accepted_at_ms"] is None


def test_what_is_not_there_is_said_in_the_databases_own_way() -> None:
    plain = samples.delivery("d1", due_at_ms=None)

    row = dict(zip(NAMES, row_maker("nothing")(plain), strict=True))

    assert {name for name, value in row.items() if value == "nothing"} == {
        column.name for column in COLUMNS if column.nullable
    }


def held() -> Delivery:
    pending = samples.delivery("d1", recipients=(Recipient("ann"),), metadata={"a": "b"})
    claimed = transitions.claim(
        pending, holder="w1", now_ms=NOW_MS, lease_until_ms=NOW_MS + LEASE_MS
    )
    return claimed.delivery


def read_back(before: Delivery, after: Delivery) -> Delivery:
    """What a store reads that wrote the changed columns and left the record as it was."""
    fresh, _ = column_change(before, after)
    assert fresh is not None
    assert len(fresh) == len(FRESH) - 1
    return delivery_of(encode_text(before), (*fresh, after.open_children))


@pytest.mark.parametrize(
    "fields",
    [
        {"committing": True, "committed_at_ms": NOW_MS + 1, "updated_at_ms": NOW_MS + 1},
        {"state": "pending", "holder": None, "claimed_at_ms": None, "unsettled_claims": 0},
        {"state": "delivered", "ended_at_ms": NOW_MS, "receipt": Receipt(accepted_at_ms=NOW_MS)},
        {"attempts_ended": 3, "attempts_spent": 2, "due_at_ms": None, "open_children": 4},
    ],
)
def test_a_change_of_columns_alone_leaves_the_record(fields: dict[str, Any]) -> None:
    before = held()
    after = replace(before, **fields)

    assert column_change(before, after)[1] is False
    assert read_back(before, after) == after


@pytest.mark.parametrize(
    "fields",
    [
        {"recipients": (Recipient("ann", "accepted"),)},
        {"receipt": Receipt("id-1", NOW_MS)},
        {"receipt": Receipt(accepted_at_ms=NOW_MS, evidence="operator")},
        {"receipt": Receipt()},
        {"metadata": {"a": "c"}},
        {"cycle": 2},
    ],
)
def test_what_only_the_record_says_is_written_there(fields: dict[str, Any]) -> None:
    before = held()

    fresh, record_changes = column_change(before, replace(before, **fields))

    assert record_changes
    assert fresh is not None


@pytest.mark.parametrize(
    "fields",
    [
        {"queue": "other"},
        {"priority": 1},
        {"notices_due": ("alert",)},
        {"failure": Failure("timed_out")},
        {"failed_because": "rejected"},
        {"topic": "other"},
    ],
)
def test_other_columns_are_written_with_the_whole_row(fields: dict[str, Any]) -> None:
    before = held()

    assert column_change(before, replace(before, **fields)) == (None, True)


def test_a_receipt_that_is_taken_back_is_taken_from_the_record_too() -> None:
    before = replace(held(), receipt=Receipt(accepted_at_ms=NOW_MS))

    assert column_change(before, replace(before, receipt=None))[1]


def test_every_field_is_judged() -> None:
    """A field that the domain gains is compared at once: it lies in the record or in a column."""
    before = held()
    whole = filled_delivery("d1", receipt=Receipt("id-1"))
    for name in Delivery.__struct_fields__:
        after = replace(before, **{name: getattr(whole, name)})
        _, record_changes = column_change(before, after)
        if not record_changes and after != before:
            assert read_back(before, after) == after, name


def test_sqlite_binds_half_a_number_as_nothing() -> None:
    database = sqlite3.connect(":memory:")

    assert database.execute("select nullif(?, 0.5)", (0.5,)).fetchone() == (None,)
    for value in ("", "0.5", 0, 1, -1):
        assert database.execute("select nullif(?, 0.5)", (value,)).fetchone() == (value,)
    database.close()

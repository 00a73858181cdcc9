"""Records in a plugin's own layout, which a store writes in the same commit as the engine's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from homing.domain.delivery import Attempt, Change, Content, Delivery, Fact, Key, New

CLAIM_MS = b"\x00"
"""The placeholder in `claimed_tail` for the time of the claim, in milliseconds."""
CLAIM_ISO = b"\x01"
"""As `CLAIM_MS`, for the time as ISO 8601 text. Neither byte ever occurs in JSON."""


class ShownRecord(Struct, frozen=True, gc=False, kw_only=True):
    """What to put under `key`: the bytes `head + tail`, found under the index names `names`.

    The head is computed from the request, which a change does not carry: a head of None
    keeps the stored one. An empty tail hides the record and keeps its head. A claim puts
    `claimed_tail` and `claimed_names`, with the placeholders replaced by its time; a
    `claimed_tail` of None leaves the record unchanged. The record expires at `gone_at_ms`.

    An `owned` record without a `gone_at_ms` is removed with that of its delivery. One with an
    `of_key` is put only if the write puts that key.
    """

    key: str
    head: bytes | None = None
    tail: bytes = b""
    names: tuple[str, ...] = ()
    claimed_tail: bytes | None = None
    claimed_names: tuple[str, ...] = ()
    gone_at_ms: int | None = None
    owned: bool = True
    of_key: tuple[str, str] | None = None


class Table(Struct, frozen=True):
    """A table of a SQL database that has the records of a RecordLayout as its rows.

    `key` is the column with the id of the delivery, and `json` are columns that hold a JSON
    value. `has_row` returns whether a delivery can have a row.
    """

    name: str
    key: str
    has_row: Callable[[Delivery], bool]
    json: frozenset[str] = frozenset()


class TableRow(Struct, frozen=True, gc=False):
    """A row of a table: all columns, or those that a change of the delivery changes. `values` of
    None: the delivery is not shown, and has no row."""

    table: Table
    delivery_id: str
    values: dict[str, Any] | None


class Projection(Protocol):
    """The records that belong to a write; `keys` are those that it puts, with their terms."""

    def of_new(self, new: New, keys: Sequence[Key]) -> tuple[ShownRecord, ...]:
        """The records to put with a new delivery; `keys` are those that it takes."""

    def of_change(self, change: Change, keys: Sequence[Key]) -> tuple[ShownRecord, ...]:
        """The records to put and to remove with a change; `keys` as they are after it."""

    def line(
        self,
        delivery: Delivery,
        content: Callable[[], Content],
        attempts: Sequence[Attempt],
        head: bytes | None,
    ) -> tuple[bytes, int] | None:
        """The delivery's own record, for a store that writes it whole each time: the bytes of a
        JSON object without its last brace, and how many of them are the head.

        `head` is that of the previous record, if the request is the same. None: this delivery has
        no RecordLayout.
        """

    def of_facts(self, facts: Sequence[Fact]) -> tuple[ShownRecord, ...]:
        """The records to put and to remove with facts."""

    def tables(self) -> Sequence[Table]:
        """The tables of SQL databases that have rows of deliveries."""

    def has_table(self, queue: str) -> bool:
        """Whether deliveries of this queue have rows in such a table."""

    def table(self, delivery: Delivery) -> Table | None:
        """The table in which this delivery has a row, if it is shown."""

    def row(
        self, delivery: Delivery, content: Content | None, attempts: Sequence[Attempt] = ()
    ) -> TableRow | None:
        """The row of a delivery; without its content, the columns that a change changes. None: it
        has no table."""

"""Rows of the tables of record layouts, which a store writes in the same commit as its own.

The table belongs to the application and has the columns of its design. Rows that others insert,
change or delete there are marked by a trigger, as facts of the kind `foreign_row` under the key
`<table>/<id>`; a worker adopts them (stores/foreign_rows.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, field

from homing.domain.delivery import Attempt, Content, Delivery
from homing.domain.shown import Projection, Table, TableRow
from homing.stores.codec import encode
from homing.stores.judging import Effect
from homing.stores.sql.planning import Plan

MARK = "foreign_row"
"""The kind of the fact that marks a row."""


class Rows(Struct):
    """Rows of one table, with the same columns."""

    table: Table
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.rows[0])

    @property
    def data(self) -> str:
        """As a JSON array."""
        return encode(self.rows).decode()


class LayoutTables:
    """The tables that are there. `projection` makes their rows."""

    def __init__(self, projection: Projection, there: Iterable[str]) -> None:
        self._projection = projection
        names = frozenset(there)
        self._tables = {table.name: table for table in projection.tables() if table.name in names}

    def __bool__(self) -> bool:
        return bool(self._tables)

    def __contains__(self, name: str) -> bool:
        return name in self._tables

    def table(self, name: str) -> Table:
        return self._tables[name]

    def has_rows(self, queues: Iterable[str]) -> bool:
        """Whether deliveries of any of these queues may have a row."""
        return any(map(self._projection.has_table, queues))

    def of_new(self, new: Sequence[Effect]) -> list[Rows]:
        """All columns of the rows of new deliveries that are shown."""
        rows = []
        for effect in new:
            if effect.after is not None:
                payload = [one.payload for one in effect.writes if one.payload is not None]
                content = Content(payload[-1] if payload else b"", effect.writes[0].results)
                rows.append(self.row(effect.after, content))
        return self.gathered([row for row in rows if row is not None and row.values is not None])

    def of_held(self, plan: Plan) -> list[Rows]:
        """The columns that change, of deliveries that this process holds."""
        return self.changed([one.after for one in plan.changed])[0]

    def changed(self, deliveries: Iterable[Delivery]) -> tuple[list[Rows], list[str]]:
        """The columns that change, and the ids of those that are not shown any longer."""
        rows = [row for row in map(self.row, deliveries) if row is not None]
        hidden = [row.delivery_id for row in rows if row.values is None]
        return self.gathered([row for row in rows if row.values is not None]), hidden

    def shown(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Those that have a table here."""
        return [one for one in deliveries if self.table_of(one) is not None]

    def table_of(self, delivery: Delivery) -> Table | None:
        table = self._projection.table(delivery)
        return table if table is not None and table.name in self._tables else None

    def row(
        self,
        delivery: Delivery,
        content: Content | None = None,
        attempts: Sequence[Attempt] = (),
    ) -> TableRow | None:
        row = self._projection.row(delivery, content, attempts)
        return row if row is not None and row.table.name in self._tables else None

    def gathered(self, rows: Iterable[TableRow]) -> list[Rows]:
        """By table; each row with its key."""
        found: dict[str, Rows] = {}
        for row in rows:
            table = row.table
            values = {table.key: row.delivery_id} | (row.values or {})
            found.setdefault(table.name, Rows(table)).rows.append(values)
        return list(found.values())

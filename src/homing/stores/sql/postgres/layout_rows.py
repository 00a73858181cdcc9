"""Rows of the tables of record layouts: as parts of the statement of a batch, or by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

from homing.domain.delivery import Content, Delivery
from homing.domain.shown import TableRow
from homing.ports import ForeignRow
from homing.stores.sql.columns import Row, delivery_of
from homing.stores.sql.layouts import MARK, LayoutTables, Rows
from homing.stores.sql.postgres.arrays import Array
from homing.stores.sql.postgres.rows import PARTS
from homing.stores.sql.postgres.statement import Statement, Steps, bind
from homing.stores.sql.statements import load

_SQL = load(__package__, "layout.sql", PARTS)

Part: TypeAlias = Literal["insert", "update"]
BEGIN_OWN = Statement(_SQL["begin_own"])
_SAVEPOINT = Statement("savepoint homing")
_UNDO = Statement("rollback to savepoint homing")
_FOREIGN_KEY_VIOLATION = "23503"
END_OWN = Statement(_SQL["end_own"])


class LayoutPart(NamedTuple):
    """A part of a statement that inserts or updates rows of a table, without their values."""

    part: Part
    nth: int
    table: str
    key: str
    names: tuple[str, ...]
    json: frozenset[str]

    @property
    def sql(self) -> str:
        """`:is_saved:` in it says which rows are written."""
        names = [name for name in self.names if name != self.key]
        text = _SQL[self.part].replace(":nth:", str(self.nth))
        text = text.replace(":set:", ", ".join(f"{name} = w.{name}" for name in names))
        return _filled(text, self)

    @property
    def is_saved(self) -> str:
        return _filled(_SQL["is_saved"], self)

    @property
    def rows(self) -> str:
        """A JSON null of a JSON column is a value, not a missing one."""
        columns = ", ".join(
            f"r.value -> '{name}' as {name}" if name in self.json else f"c.{name}"
            for name in self.names
        )
        return (
            f"(select {columns}"  # noqa: S608 - names of a layout
            f" from jsonb_array_elements(@layout_{self.nth}::text::jsonb) as r (value)"
            f" cross join lateral jsonb_populate_record(null::{self.table}, r.value) as c) as w"
        )


def take(part: Part, nth: int, rows: Rows, values: dict[str, Any]) -> LayoutPart:
    """A part for these rows. Their values are added as a parameter."""
    values[f"layout_{nth}"] = rows.data
    table = rows.table
    return LayoutPart(part, nth, table.name, table.key, rows.columns, table.json)


def _filled(text: str, part: LayoutPart) -> str:
    for mark, given in (
        (":rows:", part.rows),
        (":table:", part.table),
        (":names:", ", ".join(part.names)),
        (":key:", part.key),
    ):
        text = text.replace(mark, given)
    return text


@cache
def _alone(name: str, part: LayoutPart) -> str:
    return _filled(_SQL[name].replace(":step:", part.sql.replace(":is_saved:", "true")), part)


def _run(name: str, part: Part, rows: Rows) -> Steps[list[Row]]:
    values: dict[str, Any] = {}
    return (yield bind(_alone(name, take(part, 0, rows, values)), values))


def show_claimed(tables: LayoutTables, claimed: Sequence[tuple[Delivery, Content]]) -> Steps[None]:
    """Change the rows of what was claimed. A row that is not there is inserted: another program
    deleted it, or the delivery was added by a process that does not know the layout."""
    changed, hidden = tables.changed([delivery for delivery, _ in claimed])
    updated: set[str] = set()
    for rows in changed:
        updated |= {row[0] for row in (yield from _run("updated", "update", rows))}
    missing = [
        row
        for delivery, content in claimed
        if delivery.id not in updated
        and delivery.id not in hidden
        and (row := tables.row(delivery, content)) is not None
    ]
    for rows in tables.gathered(missing):
        yield from _run("inserted", "insert", rows)


def refresh(tables: LayoutTables, ids: Iterable[str]) -> Steps[None]:
    """Write the rows of these deliveries as the stored records say; delete those of others."""
    wanted = sorted(ids)
    if not wanted:
        return
    stored = yield bind(_SQL["stored"], {"ids": Array("text", wanted)})
    rows = []
    for payload, record, *fresh in stored:
        row = tables.row(delivery_of(record, fresh), Content(payload or b""))
        if row is not None:
            rows.append(row)
    hidden = tables.gathered([row for row in rows if row.values is None])
    for gone in hidden:
        yield from _run("delete", "update", gone)
    for there in tables.gathered([row for row in rows if row.values is not None]):
        updated = {row[0] for row in (yield from _run("updated", "update", there))}
        missing = [row for row in there.rows if row[there.table.key] not in updated]
        if missing:
            yield from _run("inserted", "insert", Rows(there.table, missing))


def remove(tables: LayoutTables, removed: Iterable[Delivery]) -> Steps[None]:
    rows = [
        TableRow(table, one.id, None)
        for one in removed
        if (table := tables.table_of(one)) is not None
    ]
    for gone in tables.gathered(rows):
        yield from _run("delete", "update", gone)


def foreign_rows(tables: LayoutTables, name: str, limit: int) -> Steps[list[ForeignRow]]:
    """The marked rows of a table."""
    marks = yield bind(_SQL["marked"], {"kind": MARK, "prefix": name, "limit": limit})
    if not marks:
        return []
    ids = [key.removeprefix(f"{name}/") for key, _ in marks]
    data: dict[str, str] = dict((yield from _run("rows", "update", _keys(tables, name, ids))))
    return [
        ForeignRow(id=one, mark=mark, data=data.get(one))
        for one, (_, mark) in zip(ids, marks, strict=True)
    ]


def replace_row(tables: LayoutTables, name: str, gone: str, there: str) -> Steps[None]:
    """Remove a row and write that of another delivery, unless another table refers to the row."""
    yield _SAVEPOINT
    try:
        yield from _run("delete", "update", _keys(tables, name, [gone]))
    except Exception as error:
        if getattr(error, "sqlstate", None) != _FOREIGN_KEY_VIOLATION:
            raise
        yield _UNDO
        return
    yield from refresh(tables, [there])


def settle(
    tables: LayoutTables, name: str, marks: Mapping[str, str], restored: Sequence[str]
) -> Steps[None]:
    """Restore these rows from the stored records, and remove the marks that were seen."""
    if restored:
        yield from _run("lock", "update", _keys(tables, name, restored))
        yield from refresh(tables, restored)
    keys = [f"{name}/{one}" for one in marks]
    values = {"keys": Array("text", keys), "values": Array("text", [*marks.values()])}
    yield bind(_SQL["unmark"], {"kind": MARK, **values})


def there(names: Sequence[str]) -> Statement:
    """Asks which of these tables there are."""
    return bind(_SQL["there"], {"names": Array("text", names)})


def _keys(tables: LayoutTables, name: str, ids: Sequence[str]) -> Rows:
    table = tables.table(name)
    return Rows(table, [{table.key: one} for one in ids])

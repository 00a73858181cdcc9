"""Rows of the tables of record layouts, written as the stored records say.

The triggers on a table mark whatever is written there. Rows that Homing has written are unmarked in
the same transaction. A row with a mark of another program is left alone until it is adopted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

from homing.domain.delivery import Content, Delivery
from homing.domain.shown import Table, TableRow
from homing.ports import ForeignRow
from homing.stores.codec import decode_attempt, encode
from homing.stores.sql.columns import delivery_of
from homing.stores.sql.layouts import MARK, LayoutTables
from homing.stores.sql.sqlite.connection import connect
from homing.stores.sql.sqlite.rows import PARTS
from homing.stores.sql.sqlite.session import Session
from homing.stores.sql.statements import load

_SQL = load(__package__, "layout.sql")
_READ = load(__package__, "read.sql", PARTS)


def there(path: Path, busy_timeout_s: float, tables: Iterable[Table]) -> list[str]:
    """The names of those tables that are in the database."""
    with closing(connect(path, busy_timeout_s)) as connection:
        names = [table.name for table in tables]
        return [name for name in names if connection.execute(_SQL["there"], (name,)).fetchone()]


def show(session: Session, tables: LayoutTables, deliveries: Iterable[Delivery]) -> None:
    """Write the rows of those that are stored, and delete those of the others."""
    for delivery in deliveries:
        table = tables.table_of(delivery)
        if table is not None:
            key = f"{table.name}/{delivery.id}"
            if not session.ask(_SQL["is_marked"], (MARK, key)):
                _put(session, table, delivery.id, _stored_row(session, tables, delivery.id))
                session.run(_SQL["unmark"], (MARK, key))


def show_ids(session: Session, tables: LayoutTables, ids: Iterable[str]) -> None:
    """As `show`, of stored deliveries."""
    show(session, tables, [one for each in ids if (one := _stored(session, each)) is not None])


def foreign_rows(
    connection: sqlite3.Connection, tables: LayoutTables, name: str, limit: int
) -> list[ForeignRow]:
    """The marked rows of a table."""
    marks = connection.execute(_SQL["marked"], (MARK, f"{name}/", f"{name}0", limit)).fetchall()
    found = []
    for key, mark in marks:
        one = key.removeprefix(f"{name}/")
        cursor = connection.execute(_statement("row", tables.table(name)), (one,))
        row = cursor.fetchone()
        names = [column[0] for column in cursor.description]
        data = None if row is None else encode(dict(zip(names, row, strict=True))).decode()
        found.append(ForeignRow(id=one, mark=mark, data=data))
    return found


def settle(
    path: Path,
    busy_timeout_s: float,
    tables: LayoutTables,
    name: str,
    marks: Mapping[str, str],
    restored: Sequence[str],
    replaced: Mapping[str, str],
) -> None:
    """Restore these rows from the stored records, and remove the marks that were seen. Each of
    `replaced` gives way to the row of another delivery, unless other tables refer to it."""
    with closing(connect(path, busy_timeout_s)) as connection:
        connection.execute("begin immediate")
        session = Session(connection)
        keys = [(MARK, f"{name}/{one}", mark) for one, mark in marks.items()]
        session.run_each(_SQL["unmark_seen"], keys)
        for gone in replaced:
            with suppress(sqlite3.IntegrityError):
                session.run(_statement("delete", tables.table(name)), (gone,))
                session.run(_SQL["unmark"], (MARK, f"{name}/{gone}"))
        show_ids(session, tables, [*restored, *replaced.values()])
        session.close()
        connection.execute("commit")


def _stored(session: Session, delivery_id: str) -> Delivery | None:
    for record, *fresh in session.ask(_READ["get"], (delivery_id,)):
        return delivery_of(record, fresh)
    return None


def _stored_row(session: Session, tables: LayoutTables, delivery_id: str) -> TableRow | None:
    delivery = _stored(session, delivery_id)
    if delivery is None:
        return None
    [(_, payload)] = session.ask(_READ["payload"], (delivery_id,))
    attempts = [
        decode_attempt(record) for (record,) in session.ask(_READ["attempts"], (delivery_id,))
    ]
    return tables.row(delivery, Content(payload or b""), attempts)


def _put(session: Session, table: Table, delivery_id: str, row: TableRow | None) -> None:
    if row is None or row.values is None:
        session.run(_statement("delete", table), (delivery_id,))
        return
    values: dict[str, Any] = {
        name: encode(value).decode() if name in table.json else value
        for name, value in row.values.items()
    }
    session.run(_statement("put", table, tuple(values)), tuple(values.values()))


@cache
def _statement(name: str, table: Table, columns: tuple[str, ...] = ()) -> str:
    text = _SQL[name]
    for mark, given in (
        (":table:", table.name),
        (":key:", table.key),
        (":names:", ", ".join(columns)),
        (":values:", ", ".join("?" * len(columns))),
        (":set:", ", ".join(f"{one} = excluded.{one}" for one in columns)),
    ):
        text = text.replace(mark, given)
    return text

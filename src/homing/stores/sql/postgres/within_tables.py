"""Whether a connection of the caller writes to the store's own tables, and durably."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import psycopg
from msgspec import Struct

from homing.domain.errors import StoreUnavailable, StoreUnsafe
from homing.stores.sql.columns import Row
from homing.stores.sql.migrate import outstanding, shipped
from homing.stores.sql.postgres.connection import CONNECT_S
from homing.stores.sql.postgres.faults import store_error
from homing.stores.sql.postgres.opening import weak_of
from homing.stores.sql.postgres.statement import Statement
from homing.stores.sql.statements import load

_SQL = load(__package__, "within.sql") | load(__package__, "open.sql")
SEEN_TABLES = Statement(_SQL["tables"])


class Tables(Struct, frozen=True):
    """The tables that a connection writes to, and which settings make its commits weak."""

    server: str
    database: str
    table: int
    schema: str
    weak: tuple[str, ...]


class OwnTables:
    """The store's tables, seen over a connection of its own. They are looked up once."""

    def __init__(self, url: str, name: str, *, allows_weak_durability: bool = False) -> None:
        self._url = url
        self._name = name
        self._allows_weak_durability = allows_weak_durability
        self._seen: Tables | None = None

    def refuse_others(self, rows: Sequence[Row]) -> None:
        """`rows` is what the caller's connection answered to `SEEN_TABLES`."""
        seen, own = _tables(rows), self.look()
        if (seen.server, seen.database) != (own.server, own.database):
            where = "" if seen.server == own.server else " of another server"
            raise StoreUnsafe(
                f"the connection's database is {seen.database}{where},"
                f" not the store's {own.database}"
            )
        if seen.table != own.table:
            found = f"schema {seen.schema}" if seen.table else "no schema with Homing's tables"
            raise StoreUnsafe(
                f"the connection's search_path leads to {found}, and must lead to {own.schema}"
            )
        if seen.weak and not self._allows_weak_durability:
            raise StoreUnsafe(
                f"the connection has {', '.join(seen.weak)}: a power cut may undo its commits"
            )

    def look(self) -> Tables:
        if self._seen is not None:
            return self._seen
        try:
            with psycopg.connect(self._url, connect_timeout=CONNECT_S) as connection:
                self._seen = tables = self._look(connection.cursor())
        except psycopg.Error as error:
            raise store_error(error, self._name) from error
        return tables

    async def look_async(self) -> Tables:
        return await asyncio.to_thread(self.look) if self._seen is None else self._seen

    def _look(self, cursor: psycopg.Cursor[Row]) -> Tables:
        tables = _tables(cursor.execute(SEEN_TABLES.sql.encode()).fetchall())
        advice = "start Homing once, or run `homing migrate`, before you submit"
        if not tables.table:
            raise StoreUnavailable(f"{self._name} has no tables of Homing yet: {advice}")
        applied = cursor.execute(_SQL["applied_migrations"].encode()).fetchall()
        pending = outstanding(shipped(__package__), dict(applied))
        if pending:
            names = ", ".join(f"{each.number:04}_{each.name}" for each in pending)
            raise StoreUnavailable(f"{self._name} has an older schema, without {names}: {advice}")
        return tables


def _tables(rows: Sequence[Row]) -> Tables:
    [(server, database, table, schema, *settings)] = rows
    return Tables(server, database, table, schema, tuple(weak_of(settings)))

"""Before a store is used: durability is checked, and the schema brought up to date."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from homing.domain.errors import StoreUnsafe
from homing.ports import Finding
from homing.stores.sql import schema
from homing.stores.sql.asking import Ask, Steps, run_async
from homing.stores.sql.columns import Row
from homing.stores.sql.plugin_files import PluginFile
from homing.stores.sql.postgres.connection import Postgres, is_pooled
from homing.stores.sql.postgres.statement import Statement, bind
from homing.stores.sql.schema import Schema
from homing.stores.sql.statements import load

T = TypeVar("T")
_SQL = load(__package__, "open.sql")
_SCHEMA = Schema(__package__, _SQL, lambda script: [script])
LONG_SNAPSHOT_S = 300.0
# What a server must not have switched off, or it may lose what it has acknowledged.
_UNSAFE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


async def weak_settings(connection: Postgres) -> list[str]:
    [row] = await _ask(connection, "durability")
    return weak_of(row)


def weak_of(row: Sequence[str]) -> list[str]:
    """Of the three settings in this order, those that are too weak."""
    found = dict(zip(_UNSAFE, row, strict=True))
    return [f"{name}={value}" for name, value in found.items() if value == _UNSAFE[name]]


async def check_durability(connection: Postgres) -> None:
    weak = await weak_settings(connection)
    if weak:
        raise StoreUnsafe(
            f"the server has {', '.join(weak)}: a power cut may undo what was acknowledged. Switch"
            " it on, or allow this with ?durability=weak in the URL of the store"
        )


async def findings(connection: Postgres, *, allows_weak_durability: bool) -> list[Finding]:
    version = connection.info.server_version
    detail = f"PostgreSQL {version // 10000}.{version % 10000}"
    if await is_pooled(connection):
        detail += ", behind a pooler: no notifications, so work is looked for every 250 ms"
    found = [Finding("server", "good", detail)]
    weak = await weak_settings(connection)
    if weak:
        detail = f"the server has {', '.join(weak)}: a power cut may undo what was acknowledged"
        found.append(Finding("durability", "warning" if allows_weak_durability else "bad", detail))
    else:
        found.append(Finding("durability", "good", "commits wait for the disk"))
    [(open_s,)] = await _ask(connection, "oldest_snapshot")
    if open_s is not None and open_s > LONG_SNAPSHOT_S:
        detail = f"a transaction has been open for {open_s:.0f} s: dead rows cannot be removed"
        found.append(Finding("server", "warning", detail))
    return found


async def database_id(connection: Postgres) -> str:
    """Differs between any two databases; a standby or a restored copy has that of its original."""
    [(found,)] = await _ask(connection, "database")
    return str(found)


async def migrate(connection: Postgres, files: Sequence[PluginFile]) -> None:
    """Safe from several processes at once: the first one applies, the others wait for it."""
    if not await pending_names(connection, files):
        return
    async with connection.transaction():
        await _ask(connection, "lock_migrations")
        await _answer(connection, schema.apply_migrations(_SCHEMA))
        if files:
            await _answer(connection, schema.apply_files(_SCHEMA, files))


async def pending_names(connection: Postgres, files: Sequence[PluginFile]) -> list[str]:
    """The migrations and SQL files of plugins that the next start would apply."""
    return await _answer(connection, schema.pending_names(_SCHEMA, files))


async def _answer(connection: Postgres, steps: Steps[T]) -> T:
    return await run_async(steps, lambda ask: _execute(connection, ask))


async def _ask(connection: Postgres, name: str) -> list[Row]:
    return await _execute(connection, Ask(_SQL[name]))


async def _execute(connection: Postgres, ask: Ask) -> list[Row]:
    """Without values it may be a whole script, which is run as it is."""
    statement = bind(ask.sql, ask.values) if ask.values else Statement(ask.sql)
    given = (statement.sql.encode(), statement.parameters)
    cursor = await connection.execute(*given, prepare=False)
    return await cursor.fetchall() if cursor.description else []

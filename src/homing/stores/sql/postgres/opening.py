"""Before a store is used: durability is checked, and the schema brought up to date."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import psycopg

from homing.domain.errors import StoreError, StoreUnsafe
from homing.ports import Finding
from homing.stores.sql.migrate import Migration, check_old_workers, outstanding, shipped
from homing.stores.sql.plugin_files import PluginFile, outstanding_files
from homing.stores.sql.postgres.connection import Postgres, is_pooled
from homing.stores.sql.statements import load

_SQL = load(__package__, "open.sql")
_BEATS_WITHIN_S = 60.0
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
    if not await pending_migrations(connection) and not await pending_files(connection, files):
        return
    async with connection.transaction():
        await _ask(connection, "lock_migrations")
        await _ask(connection, "create_migrations")
        pending = await pending_migrations(connection)
        if pending and pending[0].number > 1:
            since_ms = round((time.time() - _BEATS_WITHIN_S) * 1000)
            beating = await _ask(connection, "heartbeats_since", since_ms)
            check_old_workers(pending, {name for (name,) in beating})
        for migration in pending:
            await connection.execute(migration.script.encode(), prepare=False)
            given = (migration.number, migration.name, migration.checksum)
            await _ask(connection, "note_migration", *given)
        if files:
            await _ask(connection, "create_plugin_files")
        for file in await pending_files(connection, files):
            try:
                await connection.execute(file.script.encode(), prepare=False)
            except psycopg.Error as error:
                raise StoreError(f"{file.name} of plugin {file.plugin}: {error}") from error
            await _ask(connection, "note_file", file.plugin, file.name, file.checksum)


async def pending_migrations(connection: Postgres) -> tuple[Migration, ...]:
    [(has_table,)] = await _ask(connection, "has_migrations")
    applied = await _ask(connection, "applied_migrations") if has_table else []
    return outstanding(shipped(__package__), dict(applied))


async def pending_files(connection: Postgres, files: Sequence[PluginFile]) -> list[PluginFile]:
    if not files:
        return []
    [(has_table,)] = await _ask(connection, "has_plugin_files")
    applied = await _ask(connection, "applied_files") if has_table else []
    return outstanding_files(files, {(name, file): sum_ for name, file, sum_ in applied})


async def _ask(connection: Postgres, name: str, *values: Any) -> list[Any]:
    cursor = await connection.execute(_SQL[name].encode(), values, prepare=False)
    return await cursor.fetchall() if cursor.description else []

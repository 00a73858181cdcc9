"""Brings the schema of a database up to date, and applies the SQL files of plugins after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct

from homing.domain.errors import StoreError
from homing.stores.sql.asking import Ask, Steps
from homing.stores.sql.migrate import Migration, check_old_workers, outstanding, shipped
from homing.stores.sql.plugin_files import PluginFile, outstanding_files

# A process whose last heartbeat is older than this is dead.
_BEATS_WITHIN_S = 60.0


class Schema(Struct, frozen=True):
    """Whose migrations a database has, its statements about them, and how a script is run there."""

    package: str
    sql: Mapping[str, str]
    statements_of: Callable[[str], Sequence[str]]


def pending_migrations(schema: Schema) -> Steps[tuple[Migration, ...]]:
    [(has_table,)] = yield Ask(schema.sql["has_migrations"])
    applied = (yield Ask(schema.sql["applied_migrations"])) if has_table else []
    return outstanding(
        shipped(schema.package), {number: _text(checksum) for number, checksum in applied}
    )


def pending_files(schema: Schema, files: Sequence[PluginFile]) -> Steps[list[PluginFile]]:
    [(has_table,)] = yield Ask(schema.sql["has_plugin_files"])
    applied = (yield Ask(schema.sql["applied_files"])) if has_table else []
    return outstanding_files(
        files, {(plugin, name): checksum for plugin, name, checksum in applied}
    )


def pending_names(schema: Schema, files: Sequence[PluginFile]) -> Steps[list[str]]:
    """What the next start would apply."""
    migrations = yield from pending_migrations(schema)
    names = [f"{migration.number:04}_{migration.name}" for migration in migrations]
    return names + [
        f"{file.plugin}/{file.name}" for file in (yield from pending_files(schema, files))
    ]


def apply_migrations(schema: Schema, running: Callable[[], Collection[str]] = tuple) -> Steps[None]:
    """In a transaction that excludes others. `running` names processes that are known to live;
    others are known by their heartbeats."""
    yield Ask(schema.sql["create_migrations"])
    pending = yield from pending_migrations(schema)
    if pending and pending[0].number > 1:
        since_ms = round((time.time() - _BEATS_WITHIN_S) * 1000)
        beating = yield Ask(schema.sql["heartbeats_since"], {"since_ms": since_ms})
        check_old_workers(pending, {*running(), *[_text(name) for (name,) in beating]})
    for migration in pending:
        for statement in schema.statements_of(migration.script):
            yield Ask(statement)
        given = {
            "number": migration.number,
            "name": migration.name,
            "checksum": migration.checksum,
        }
        yield Ask(schema.sql["note_migration"], given)


def apply_files(schema: Schema, files: Sequence[PluginFile]) -> Steps[None]:
    """In one transaction: a file that fails leaves the database as it was."""
    yield Ask(schema.sql["create_plugin_files"])
    for file in (yield from pending_files(schema, files)):
        try:
            for statement in schema.statements_of(file.script):
                yield Ask(statement)
        except Exception as error:
            raise StoreError(f"{file.name} of plugin {file.plugin}: {error}") from error
        given = {"plugin": file.plugin, "name": file.name, "checksum": file.checksum}
        yield Ask(schema.sql["note_file"], given)


def _text(value: str | bytes) -> str:
    """SQLite gives blobs: on a caller's connection, the text factory is not ours."""
    return value.decode() if isinstance(value, bytes) else value

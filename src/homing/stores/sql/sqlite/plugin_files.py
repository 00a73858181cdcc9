"""Applying the SQL files of plugins to a database, after Homing's own migrations."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from homing.domain.errors import StoreError
from homing.stores.sql.plugin_files import PluginFile, outstanding_files
from homing.stores.sql.sqlite.connection import connect, statements_of
from homing.stores.sql.statements import load

_SQL = load(__package__, "plugin_files.sql")


def apply_files(path: Path, busy_timeout_s: float, files: Sequence[PluginFile]) -> None:
    """All of them in one transaction: a file that fails leaves the database as it was."""
    with closing(connect(path, busy_timeout_s)) as connection:
        connection.execute("begin immediate")
        try:
            connection.execute(_SQL["create"])
            for file in outstanding_files(files, _applied(connection)):
                _apply(connection, file)
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise


def pending_files(path: Path, files: Sequence[PluginFile]) -> list[str]:
    """What `apply_files` would apply. Only reads."""
    applied: dict[tuple[str, str], str] = {}
    if path.exists():
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            if connection.execute(_SQL["is_there"]).fetchone() != (0,):
                applied = _applied(connection)
    return [f"{file.plugin}/{file.name}" for file in outstanding_files(files, applied)]


def _apply(connection: sqlite3.Connection, file: PluginFile) -> None:
    try:
        for statement in statements_of(file.script):
            connection.execute(statement)
    except sqlite3.Error as error:
        raise StoreError(f"{file.name} of plugin {file.plugin}: {error}") from error
    connection.execute(_SQL["note"], (file.plugin, file.name, file.checksum))


def _applied(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    rows = connection.execute(_SQL["applied"])
    return {(plugin, name): checksum for plugin, name, checksum in rows}

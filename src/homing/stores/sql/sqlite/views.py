"""Reads the views that the SQL files of a plugin make, as any SQLite client does."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from homing.stores.sql.sqlite.faults import store_error

TIMEOUT_S = 5.0


async def read_view(path: Path, query: str, given: tuple[object, ...]) -> list[dict[str, Any]]:
    """The rows of a query, read by a connection of its own; StoreError if that fails."""

    def read() -> list[dict[str, Any]]:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=TIMEOUT_S)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query, given)]

    try:
        return await asyncio.to_thread(read)
    except sqlite3.Error as error:
        raise store_error(error, path) from error

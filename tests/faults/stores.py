"""The store of a file, by the ending of its name."""

from __future__ import annotations

from pathlib import Path

from homing.stores.jsonl import JsonlStore
from homing.stores.sql.sqlite import SqliteStore


def store_at(path: str | Path) -> SqliteStore | JsonlStore:
    return JsonlStore(path) if Path(path).suffix == ".jsonl" else SqliteStore(path)

"""The store at a place: a URL, or a file by the ending of its name."""

from __future__ import annotations

from pathlib import Path

from homing.ports import Store
from homing.runtime.urls import store_from_url
from homing.stores.jsonl import JsonlStore
from homing.stores.sql.sqlite import SqliteStore


def store_at(place: str | Path) -> Store:
    if isinstance(place, str) and "://" in place:
        return store_from_url(place)
    return JsonlStore(place) if Path(place).suffix == ".jsonl" else SqliteStore(place)

"""The SQLite store keeps the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from homing.ports import Store
from homing.stores.sql.sqlite import SqliteStore
from homing.testing.contract import BoundedReadsContract, StoreContract


class SqliteOpener:
    factory = "homing.stores.sql.sqlite:SqliteStore"

    def __init__(self, path: Path) -> None:
        self.url = str(path)
        self._opened: list[SqliteStore] = []

    async def open(self) -> Store:
        store = SqliteStore(self.url)
        await store.open()
        self._opened.append(store)
        return store

    async def close_all(self) -> None:
        for store in self._opened:
            await store.close()


class TestSqliteStore(StoreContract, BoundedReadsContract):
    @pytest.fixture
    def opener(self, tmp_path: Path) -> SqliteOpener:
        return SqliteOpener(tmp_path / "outbox.db")

"""The reference store keeps the contract."""

from __future__ import annotations

import pytest

from homing.ports import Store
from homing.stores.memory import MemoryDisk, MemoryStore
from homing.testing.contract import StoreContract


class MemoryOpener:
    url = None
    factory = None

    def __init__(self) -> None:
        self.disk = MemoryDisk()

    async def open(self) -> Store:
        store = MemoryStore(self.disk)
        await store.open()
        return store

    async def close_all(self) -> None:
        """A handle in memory holds nothing."""


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def opener(self) -> MemoryOpener:
        return MemoryOpener()

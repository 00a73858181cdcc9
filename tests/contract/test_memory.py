"""The reference store keeps the contract."""

from __future__ import annotations

import pytest

from homing.domain.shown import Projection
from homing.ports import Store
from homing.stores.memory import MemoryDisk, MemoryStore
from homing.testing.contract import ShowingStoreContract, StoreContract
from homing.testing.contract.foreign import foreign_projection


class MemoryOpener:
    url = None
    factory = None

    def __init__(self, projection: Projection | None = None) -> None:
        self.disk = MemoryDisk()
        self.projection = projection

    async def open(self) -> Store:
        store = MemoryStore(self.disk)
        if self.projection is not None:
            store.show(self.projection)
        await store.open()
        return store

    async def close_all(self) -> None:
        """A handle in memory holds nothing."""


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def opener(self) -> MemoryOpener:
        return MemoryOpener()


class TestMemoryStoreWithForeignLayout(StoreContract):
    @pytest.fixture
    def opener(self) -> MemoryOpener:
        return MemoryOpener(foreign_projection())


class TestMemoryStoreShows(ShowingStoreContract):
    @pytest.fixture
    def opener(self) -> MemoryOpener:
        return MemoryOpener()

"""The JSONL store keeps the contract, with its own lines and with those of a foreign layout."""

from __future__ import annotations

from pathlib import Path

import pytest

from homing.domain.shown import Projection
from homing.ports import Store
from homing.stores.jsonl import JsonlStore
from homing.testing.contract import StoreContract
from homing.testing.contract.adding import Adding
from homing.testing.contract.carrying import Carrying
from homing.testing.contract.claiming import Claiming, Renewing
from homing.testing.contract.expiring import PurgingPayloads
from homing.testing.contract.families import FanningOut
from homing.testing.contract.foreign import foreign_projection
from homing.testing.contract.histories import Histories
from homing.testing.contract.reopening import Reopening
from homing.testing.contract.saving import Saving


class JsonlOpener:
    factory = "homing.stores.jsonl:JsonlStore"

    def __init__(self, path: Path, projection: Projection | None = None) -> None:
        self.url = str(path)
        self._projection = projection
        self._opened: list[JsonlStore] = []

    async def open(self) -> Store:
        store = JsonlStore(self.url)
        if self._projection is not None:
            store.show(self._projection)
        await store.open()
        self._opened.append(store)
        return store

    async def close_all(self) -> None:
        for store in self._opened:
            await store.close()


class TestJsonlStore(StoreContract):
    @pytest.fixture
    def opener(self, tmp_path: Path) -> JsonlOpener:
        return JsonlOpener(tmp_path / "queue.jsonl")


@pytest.mark.asyncio
class TestJsonlStoreWithForeignLayout(
    Adding, Claiming, Renewing, Saving, Carrying, FanningOut, PurgingPayloads, Reopening, Histories
):
    """What writes lines; the rest does not see the RecordLayout."""

    @pytest.fixture
    def opener(self, tmp_path: Path) -> JsonlOpener:
        return JsonlOpener(tmp_path / "queue.jsonl", foreign_projection())

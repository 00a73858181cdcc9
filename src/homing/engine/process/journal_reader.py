"""Outcomes in the emergency journal are stored as soon as the store takes them."""

from __future__ import annotations

import asyncio

from homing.domain.errors import StoreCorrupt
from homing.engine.commit.settlement import Settlement, late_outcome
from homing.engine.process.store_health import StoreHealth
from homing.ports import Clock, Journal, Store


class JournalReader:
    """Reads back what `saves`, of this run or an earlier one, has written to the journal."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        journal: Journal | None,
        saves: Settlement,
        health: StoreHealth,
    ) -> None:
        self._store = store
        self._clock = clock
        self._journal = journal
        self._saves = saves
        self._health = health
        self._reading_back = asyncio.Lock()

    async def read_back(self) -> int:
        """Store the outcomes in the emergency journal; returns how many there were."""
        if self._journal is None:
            return 0
        async with self._reading_back:
            entries = await self._journal.entries()
            if self._journal.damage is not None:
                self._health.met(StoreCorrupt(self._journal.damage))
            if not entries:
                return 0
            saved = await self._store.save(entries)
            lost = [change for change, kept in zip(entries, saved, strict=True) if not kept]
            for change in lost:
                await self._store.save([], late_outcome(change, self._clock.now_ms()))
            await self._journal.clear()
            return len(entries)

    async def read_back_own(self) -> None:
        """The same, if this process has journaled any."""
        journaled = self._saves.journaled
        if journaled:
            await self.read_back()
            self._saves.journaled -= journaled

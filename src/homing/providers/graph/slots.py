"""At most four requests at once for one mailbox, by all processes of this host together.

Microsoft Graph allows four concurrent requests of an application to a mailbox and answers 429 to
more. https://learn.microsoft.com/graph/throttling-limits
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from pathlib import Path

from homing.providers.graph.host_locks import FileLock, lock_one

log = logging.getLogger("homing.graph")

MOST_REQUESTS = 4


class Slot:
    """The right to one request at a time."""

    def __init__(self, slots: Slots, lock: FileLock | None) -> None:
        self._slots: Slots | None = slots
        self.lock = lock

    def release(self) -> None:
        if self._slots is not None:
            slots, self._slots = self._slots, None
            slots.give_back(self)


class Slots:
    def __init__(self, env_file: Path, mailbox: str) -> None:
        name = hashlib.sha256(mailbox.lower().encode()).hexdigest()[:12]
        self._turn = env_file.with_name(f"{env_file.name}.{name}.turn")
        self._files = [
            env_file.with_name(f"{env_file.name}.{name}.slot{number}")
            for number in range(1, MOST_REQUESTS + 1)
        ]
        self._places = asyncio.Semaphore(MOST_REQUESTS)
        self._turns = asyncio.Lock()
        self._held: set[Slot] = set()
        self.problem: str | None = None

    async def take(self) -> Slot:
        await self._places.acquire()
        try:
            slot = Slot(self, await self._lock())
        except BaseException:
            self._places.release()
            raise
        self._held.add(slot)
        return slot

    def give_back(self, slot: Slot) -> None:
        self._held.discard(slot)
        if slot.lock is not None:
            slot.lock.release()
        self._places.release()

    def close(self) -> None:
        """Give back those of sends that were never begun."""
        for slot in list(self._held):
            slot.release()

    def leave_to_parent(self) -> None:
        """In a forked child: its copies of the descriptors would keep the slots taken."""
        for slot in self._held:
            if slot.lock is not None:
                slot.lock.close()

    async def _lock(self) -> FileLock | None:
        """Processes take turns, so that one with much work does not starve another.

        Where there can be no lock files the limit holds within this process only.
        """
        async with self._turns:
            try:
                turn = await lock_one([self._turn])
                try:
                    lock = await lock_one(self._files)
                finally:
                    turn.release()
            except OSError as error:
                if self.problem is None:
                    log.warning("graph_slots_not_shared file=%s error=%s", self._turn, error)
                self.problem = f"{self._turn}: {error.strerror}"
                return None
        self.problem = None
        return lock

"""One history run twice, on the store under test and on the reference."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from homing.domain.delivery import Fact
from homing.ports import Cursor, Query, Store
from homing.stores.memory import MemoryStore
from homing.testing import samples

SLOTS = range(6)
KEYS = range(3)
WORKERS = ("w1", "w2")

_fresh = itertools.count()


class History:
    """Every answer is compared at once, and all that is stored at the end.

    Its ids, queues and kinds are its own: many histories may be run on one store.
    """

    def __init__(self, handles: Sequence[Store]) -> None:
        self.name = f"history-{next(_fresh)}"
        self.handles = handles
        self.reference: Store = MemoryStore()
        self.now_ms = samples.NOW_MS

    def id_of(self, slot: int) -> str:
        return f"{self.name}/{slot}"

    def queue(self, number: int) -> str:
        return f"{self.name}/queue{number}"

    def fact(self, key: str) -> Fact:
        return Fact(self.name, key, self.now_ms, {"at": self.now_ms})

    async def same(self, handle: int, method: str, *args: Any) -> Any:
        answer = await getattr(self.handles[handle], method)(*args)
        assert answer == await getattr(self.reference, method)(*args), method
        return answer

    async def compare(self) -> None:
        for slot in SLOTS:
            for method in ("get", "content", "attempts"):
                await self.same(0, method, self.id_of(slot))
            await self.same(1, "page", Query(parent_id=self.id_of(slot)))
        for key in KEYS:
            await self.same(0, "find", self.name, str(key))
        for worker in WORKERS:
            await self.same(0, "count", Query(route=self.name, holder=worker), ("state",))
        await self.same(0, "facts", self.name)
        await self.same(0, "count", Query(route=self.name, notices_due=True), ("state", "queue"))
        await self.same(0, "next_due_ms", (self.queue(0), self.queue(1)))

    async def compare_records(self) -> None:
        cursor: Cursor | None = None
        while True:
            page = await self.same(0, "page", Query(route=self.name), cursor, 4)
            cursor = page.next
            if cursor is None:
                return

"""`MemoryStore`: a handle on a `MemoryDisk`, as a process holds a connection to a database."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from homing.domain.shown import Projection
from homing.ports import Answers, Batch, Claim, Claimed, Finding, Seen
from homing.runtime import forks
from homing.stores.judging import Known, judge
from homing.stores.memory.applying import apply
from homing.stores.memory.claiming import claim_due, renew_all
from homing.stores.memory.disk import MemoryDisk
from homing.stores.memory.purging import purge
from homing.stores.memory.reading import ReadsDisk

T = TypeVar("T")


class MemoryStore(ReadsDisk):
    """Keeps everything in this process. No method awaits in the middle, so each is atomic."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk = MemoryDisk() if disk is None else disk
        self._news_seen = self.disk.news
        forks.forget_in_child(self)

    def _forget_parent(self) -> None:
        """In a forked child: the parent delivers what it has accepted."""
        self.disk = MemoryDisk()
        self._news_seen = self.disk.news

    async def open(self) -> None:
        """There is nothing to connect to, and nothing to check."""

    async def findings(self) -> list[Finding]:
        detail = "in memory only: what is accepted is lost when the process ends"
        return [Finding("store", "warning", detail)]

    async def close(self) -> None:
        """The disk keeps what was stored."""

    async def commit(self, batch: Batch) -> Answers:
        disk = self.disk
        judged = judge(batch.puts, Known(disk.deliveries, disk.keys, is_complete=True))
        apply(disk, judged)
        if self.projection is not None:
            disk.shown.put(self.projection.of_facts([*judged.facts.values()]))
        renewed = [renew_all(disk, renewal) for renewal in batch.renewals]
        purged = [purge(disk, rule) for rule in batch.purges]
        claimed = [self._claim(claim) for claim in batch.claims]
        disk.tell()
        return Answers(judged.answers, renewed, purged, claimed)

    def _claim(self, claim: Claim) -> list[Claimed]:
        self.disk.shown.expire(claim.now_ms)
        return claim_due(self.disk, claim)

    def show(self, projection: Projection) -> None:
        self.projection = projection

    async def shown(self, key: str) -> Seen | None:
        return self.disk.shown.get(key)

    async def shown_under(self, name: str) -> list[str]:
        return self.disk.shown.under(name)

    async def _read(self, work: Callable[[MemoryDisk], T]) -> T:
        return work(self.disk)

    async def wait(self, timeout_s: float) -> None:
        """A change since this handle's last wait counts, so that none is missed."""
        if self._news_seen == self.disk.news:
            await self.disk.wait(timeout_s)
        self._news_seen = self.disk.news

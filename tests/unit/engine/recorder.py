"""A store that writes down its batches, and a source that writes down its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from homing.domain.writes import write_of_new
from homing.engine.commit.group_commit import GroupCommit, PutResult
from homing.ports import Answers, Batch, Kind, Put
from homing.stores.memory import MemoryStore
from homing.testing import samples

SOON_S = 10.0


class Recorder(MemoryStore):
    """Writes down its batches; refuses those with a name in `poison`; waits while it must."""

    def __init__(self, writers: tuple[frozenset[Kind], ...] | None = None) -> None:
        super().__init__()
        self._writers = writers
        self.batches: list[str] = []
        self.poison: dict[str, Exception] = {}
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    @property
    def writers(self) -> tuple[frozenset[Kind], ...]:
        return self._writers or super().writers

    async def commit(self, batch: Batch) -> Answers:
        names = [write.delivery.id for put in batch.puts for write in put.writes]
        names += ["facts" for put in batch.puts if not put.writes]
        names += ["renew" for _ in batch.renewals] + ["purge" for _ in batch.purges]
        names += ["claim" for _ in batch.claims]
        self.batches.append(" ".join(names))
        await self.may_answer.wait()
        for name in names:
            if name in self.poison:
                raise self.poison[name]
        return await super().commit(batch)


async def add(commits: GroupCommit, *names: str) -> Sequence[object]:
    async with asyncio.timeout(SOON_S):
        return await asyncio.gather(
            *(commits.add([samples.new(name)]) for name in names), return_exceptions=True
        )


class Handful(Struct):
    """What a source has handed over."""

    kind: Kind
    puts: Sequence[Put]
    answers: list[PutResult]

    def answer(self, answers: Sequence[PutResult]) -> None:
        self.answers += answers


class Pile:
    """A source of adds. `limits` are what it was asked for."""

    def __init__(self, commits: GroupCommit, *names: str) -> None:
        self._puts = [Put((write_of_new(samples.new(name)),)) for name in names]
        self.limits: list[int] = []
        self.answers: list[PutResult] = []
        commits.attach("add", self)

    def take(self, limit: int, *, is_idle: bool) -> Handful | None:
        del is_idle
        self.limits.append(limit)
        puts, self._puts = self._puts[:limit], self._puts[limit:]
        return Handful("add", puts, self.answers) if puts else None

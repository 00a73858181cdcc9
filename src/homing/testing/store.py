"""The store of an outbox: in memory, and open to code that submits `within` a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, cast

from homing.domain.delivery import Fact, New
from homing.domain.writes import write_of_new
from homing.ports import Added, Existing, Put
from homing.stores.judging import Known, judge
from homing.stores.memory import MemoryStore
from homing.stores.memory.applying import apply
from homing.stores.memory.disk import MemoryDisk


class OutboxStore(MemoryStore):
    """`within` takes any connection and records at once: a rollback takes nothing back.

    Only tests may accept that, so `memory:` itself refuses `within`.
    """

    def within(self, connection: object) -> AddedAtOnce:
        del connection  # it is not of this store
        return AddedAtOnce(self.disk)

    def within_async(self, connection: object) -> Self:
        del connection
        return self


class AddedAtOnce:
    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk

    def add(self, new: Sequence[New], facts: Sequence[Fact] = ()) -> list[Added | Existing]:
        # Wakes no task: this is the caller's thread, and those who wait are in an event loop.
        disk, put = self._disk, Put([write_of_new(one) for one in new], facts)
        judged = judge([put], Known(disk.deliveries, disk.keys, is_complete=True))
        apply(disk, judged)
        return cast("list[Added | Existing]", judged.answers[0])

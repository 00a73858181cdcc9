"""A settler over a memory store, with claimed deliveries to settle."""

from __future__ import annotations

from typing import Any

from homing.domain import transitions
from homing.domain.delivery import Change, Delivery, Receipt
from homing.domain.errors import StoreError
from homing.engine.commit.group_commit import GroupCommit
from homing.engine.commit.settlement import PendingSave, Settlement
from homing.testing import samples
from homing.testing.clocks import ManualClock
from tests.unit.domain.lives import SEND
from tests.unit.engine.world import FaultyStore, PaperJournal

LEASE_S = 60.0


class Desk:
    """A settler with what it needs, and one claimed delivery for each name asked for."""

    def __init__(self, running: int = 0, store: FaultyStore | None = None) -> None:
        self.store = store or FaultyStore()
        self.clock = ManualClock(now_ms=samples.NOW_MS)
        self.journal = PaperJournal()
        self.told: list[PendingSave] = []
        self.met: list[StoreError] = []
        self.commits = GroupCommit(self.store)
        self.settler = Settlement(
            self.store,
            self.commits,
            self.clock,
            self.journal,
            tell=self.told.extend,
            running=lambda: running,
            met=self.met.append,
        )

    async def claimed(self, *names: str) -> list[Delivery]:
        await self.store.add([samples.new(name) for name in names])
        taken = await self.store.claim(samples.claim())
        self.store.calls.clear()
        return [item.delivery for item in taken]

    def settlement(self, change: Change, **fields: Any) -> PendingSave:
        end_s = self.clock.steady_s() + LEASE_S
        return PendingSave("succeed", change, change.delivery, end_s, **fields)


def success(delivery: Delivery) -> Change:
    return transitions.succeed(
        delivery, plan=SEND, now_ms=samples.NOW_MS, roll=0.0, receipt=Receipt("n-1")
    )
